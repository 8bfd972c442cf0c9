#!/usr/bin/env bash
# Makes a Debian package of a static binary: packaging/deb.sh BINARY FOLDER. Prints the package's path.
set -euo pipefail
binary=$1 folder=$2
version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make --no-print-directory install BINARY="$binary" DESTDIR="$root" PREFIX=/usr >/dev/null
install -Dm644 LICENSE-MIT "$root/usr/share/doc/forebay/copyright"
gzip -9n "$root"/usr/share/man/man1/*
chmod -R u=rwX,go=rX "$root"
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: forebay
Version: $version
Architecture: $architecture
Maintainer: The Forebay developers
Installed-Size: $(du -ks "$root/usr" | cut -f1)
Section: admin
Priority: optional
Recommends: blktrace
Description: what a storage workload does to its disks, and what would help
 Reads a block-I/O trace, finds where streams fight over a disk, tries every
 remedy on a model of it, and serves disks, arrays and a key-value store
 with the policies that help.
END
package="$folder/forebay_${version}_$architecture.deb"
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"

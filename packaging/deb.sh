#!/usr/bin/env bash
# Makes a Debian package of a binary: packaging/deb.sh BINARY FOLDER. Prints the package's path.
set -euo pipefail
binary=$1 folder=$2
version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)

# The packages of the libraries that a binary needs if it is not static, each after a comma.
depends=""
libraries=$(packaging/needed.sh "$binary")
for library in $libraries; do
	case $library in
	libgcc_s.so.1) depends+=", libgcc-s1" ;;
	ld-linux*.so.* | libc.so.6 | libm.so.6) ;;
	*) echo "$binary needs $library, whose package is not known" >&2; exit 1 ;;
	esac
	glibc=$(readelf -V "$binary" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
done
[ -z "${glibc:-}" ] || depends="Depends: libc6 (>= ${glibc#GLIBC_})$depends"$'\n'

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make --no-print-directory install BINARY="$binary" DESTDIR="$root" PREFIX=/usr >/dev/null
install -d "$root/usr/share/doc/forebay"
{
	printf 'Forebay may be used under the MIT license or the Apache license 2.0, at your option.\n\n'
	cat LICENSE-MIT LICENSE-APACHE
} >"$root/usr/share/doc/forebay/copyright"
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
${depends}Recommends: blktrace
Description: what a storage workload does to its disks, and what would help
 Reads a block-I/O trace, finds where streams fight over a disk, tries every
 remedy on a model of it, and serves disks, arrays and a key-value store
 with the policies that help.
END
package="$folder/forebay_${version}_$architecture.deb"
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"

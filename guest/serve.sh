# Runs in the guest (guest/serve.py): programs work on a device of `forebay serve` that is killed under load and started
# again. Every step ends the script if it fails.
set -eu
export HOME=/tmp GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=gc.auto GIT_CONFIG_VALUE_0=0 GIT_CONFIG_KEY_1=user.name \
  GIT_CONFIG_VALUE_1=guest GIT_CONFIG_KEY_2=user.email GIT_CONFIG_VALUE_2=guest@localhost
starts=0
mkdir -p /mnt

say() { echo "$(cut -d' ' -f1 /proc/uptime) $*"; }
# Waits for a condition for a minute.
await() {
  for try in $(seq 600); do
    if eval "$1"; then return 0; fi
    sleep 0.1
  done
  say "FAILED: waited a minute for: $1"
  return 1
}
serve() {
  forebay serve /tmp/disk.img --socket /tmp/disk.sock --policy mq-deadline $options >>/tmp/server.log 2>&1 &
  server=$!
  starts=$((starts + 1))
}
stop() {
  kill $server
  wait $server
}
outstanding() { set -- $(cat /sys/block/$name/inflight); echo $(($1 + $2)); }
# Kills the server some times while its device has requests, and starts it again.
kills_under_load() {
  for round in $(seq $1); do
    await '[ $(grep -c "serving /tmp" /tmp/server.log) -ge $starts ]'
    sleep 2
    await '[ "$(outstanding)" -gt 0 ]'
    kill -9 $server
    wait $server || true
    say "killed the server"
    sleep 0.3
    serve
  done
}
# What programs do on a file system of the device, with the server killed meanwhile.
programs() {
  mkfs.ext4 -q /dev/$name
  mount -t ext4 /dev/$name /mnt
  say "fio"
  fio --name=v --directory=/mnt --size=48M --bsrange=4k-64k --rw=randwrite --ioengine=libaio --iodepth=16 --direct=1 \
    --verify=crc32c --verify_fatal=1 --verify_backlog=256 --fsync=64 --loops=6 --thread --output=/tmp/fio.log &
  load=$!
  kills_under_load 4
  wait $load || { cat /tmp/fio.log; return 1; }
  grep -q 'err= 0' /tmp/fio.log
  say "git and SQLite"
  worked >/tmp/work.log 2>&1 &
  load=$!
  kills_under_load 2
  wait $load || { cat /tmp/work.log; return 1; }
  umount /mnt
  # The page cache is gone, so everything is read from the device.
  mount -t ext4 /dev/$name /mnt
  [ "$(sqlite3 /mnt/db 'pragma integrity_check; select count(*) from t')" = "$(printf 'ok\n40')" ]
  git -C /mnt/repo fsck --full --strict
  [ "$(git -C /mnt/repo rev-list --count HEAD)" = 40 ]
  fio --name=v --directory=/mnt --size=48M --bsrange=4k-64k --rw=randread --ioengine=libaio --iodepth=16 --direct=1 \
    --thread --output=/tmp/fio.log
  umount /mnt
  fsck.ext4 -fn /dev/$name
  say "passed: programs on $name"
}
worked() {
  git init -q /mnt/repo
  sqlite3 /mnt/db 'pragma journal_mode=wal; create table t(at integer primary key, text blob)'
  for nth in $(seq 40); do
    sqlite3 /mnt/db "insert into t values($nth, randomblob(200000))"
    head -c 200000 /dev/urandom >/mnt/repo/file$nth
    git -C /mnt/repo add .
    git -C /mnt/repo commit -q -m $nth
    sync
  done
}

say "a device of ublk"
truncate -s 400M /tmp/disk.img
name=ublkb0
options=--ublk
serve
await '[ -b /dev/ublkb0 ] && grep -q "\[none\]" /sys/block/ublkb0/queue/scheduler'
queue=/sys/block/ublkb0/queue
limits=$(cd $queue && cat logical_block_size discard_max_bytes write_zeroes_max_bytes write_cache fua)
[ "$limits" = "$(printf '512\n1073741824\n33554432\nwrite back\n1')" ] || { say "limits: $limits"; exit 1; }
programs

say "zeros, discards"
dd if=/dev/urandom of=/dev/ublkb0 bs=1M count=8 oflag=direct 2>/dev/null
/usr/sbin/blkdiscard -o 1048576 -l 1048576 /dev/ublkb0
/usr/sbin/blkdiscard -z -o 3145728 -l 1048576 /dev/ublkb0
zeros=$(head -c 1048576 /dev/zero | md5sum)
for at in 1 3; do
  [ "$(dd if=/dev/ublkb0 bs=1M skip=$at count=1 iflag=direct 2>/dev/null | md5sum)" = "$zeros" ]
done
[ "$(dd if=/dev/ublkb0 bs=1M count=8 iflag=direct 2>/dev/null | md5sum)" = \
  "$(dd if=/tmp/disk.img bs=1M count=8 2>/dev/null | md5sum)" ]
forebay top /tmp/disk.sock --once
say "passed: zeros and discards"

say "a stop while the device is in use"
mkfs.ext4 -q /dev/ublkb0
mount -t ext4 /dev/ublkb0 /mnt
stop
(echo kept >/mnt/file; sync) &
writer=$!
sleep 1
kill -0 $writer
serve
wait $writer
[ "$(cat /mnt/file)" = kept ]
umount /mnt
stop
[ ! -e /dev/ublkb0 ]
fsck.ext4 -fn /tmp/disk.img
say "passed: a stop while the device is in use"

say "read-only"
options="--ublk --read-only"
serve
await '[ -b /dev/ublkb0 ]'
[ "$(cat /sys/block/ublkb0/ro)" = 1 ]
mount -t ext4 -o ro /dev/ublkb0 /mnt
[ "$(cat /mnt/file)" = kept ]
umount /mnt
stop
say "passed: read-only"

say "a device of nbd"
name=nbd0
options=
serve
await '[ -S /tmp/disk.sock ]'
forebay attach /tmp/disk.sock /dev/nbd0 --timeout 10s >/tmp/attach.log 2>&1 &
attach=$!
await 'grep -q "\[none\]" /sys/block/nbd0/queue/scheduler && [ -e /sys/block/nbd0/pid ]'
programs
say "a restart of attach"
mount -t ext4 /dev/nbd0 /mnt
kill -9 $attach
wait $attach || true
forebay attach /tmp/disk.sock /dev/nbd0 --timeout 10s >>/tmp/attach.log 2>&1 &
attach=$!
stop
(echo kept >/mnt/file; sync) &
writer=$!
sleep 1
kill -0 $writer
serve
wait $writer
umount /mnt
forebay detach /dev/nbd0
wait $attach
[ ! -e /sys/block/nbd0/pid ]
stop
fsck.ext4 -fn /tmp/disk.img
say "passed: a device of nbd"
cat /tmp/server.log /tmp/attach.log
say "passed: everything"

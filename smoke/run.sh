#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A bump under churn for a while: short and long connections of real kernels through af_packet
# ports, a link that comes and goes, another DPDK process on memif ports that leaves and comes back
# again and again. In the end nothing may have piled up: memory, packet buffers, flows.
#
# usage: MILLRACE=target/release/millrace smoke/run.sh [SECONDS]      default 120; needs root
set -eu

seconds=${1:-120}
millrace=${MILLRACE:-target/release/millrace}

fail() {
    echo "smoke: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || fail "needs root: network namespaces, packet sockets"
[ -x "$millrace" ] || fail "no program at $millrace: make build"
[ "$(nproc)" -ge 2 ] || fail "needs 2 cpus: one for each worker"
for tool in curl dpdk-testpmd ethtool ip iperf3 nsenter ping python3 setpriv unshare; do
    command -v $tool >/dev/null || fail "$tool is missing: scripts/install-deps test"
done

work=$(mktemp -d)
# Whatever is started here is killed with this script, however it ends.
mortal="setpriv --pdeathsig KILL --"
running=
trap 'kill -KILL $running 2>/dev/null || true; rm -rf "$work" "/var/run/dpdk/smoke-$$"' EXIT
trap 'exit 1' INT TERM

# Starts a command in the background for as long as this script lives.
start() {
    "$@" &
    running="$running $!"
}

# Waits up to a minute for a command to succeed.
wait_for() {
    tries=300
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "never happened: $*"
        sleep 0.2
    done
}

# Makes a network namespace; its number is that of the process which holds it.
namespace() {
    start $mortal unshare --net sh -c \
        "ip link set dev lo up && touch '$work/$1' && exec sleep 86400"
    holder=$!
    wait_for test -e "$work/$1"
}

# Runs a command in a namespace.
at() {
    net=$1
    shift
    nsenter --net="/proc/$net/ns/net" -- "$@"
}

# Lays a veth between a host and the bump. What leaves the host is complete, as on a real wire.
cable() {
    host=$1 number=$2
    at "$host" ip link add dev "host$number" type veth peer name "end$number" netns "$bump"
    for place in "$host host$number" "$bump end$number"; do
        set -- $place
        at "$1" ip link set dev "$2" addrgenmode none
        at "$1" ethtool -K "$2" tx off tso off gso off gro off >/dev/null
        at "$1" ip link set dev "$2" up
    done
    at "$host" ip address add dev "host$number" "10.9.0.$number/24"
    at "$host" ip address add dev "host$number" "2001:db8::$number/64" nodad
}

# Until it is told to stop: repeats a command, which may fail while a link is down.
churn() {
    while [ ! -e "$work/stop" ]; do
        "$@" >/dev/null 2>&1 || sleep 0.2
    done
}

fetch() {
    url="http://$1:8080/page"
    at "$a" timeout 10 curl --silent --max-time 5 "$url" "$url" "$url" "$url" "$url"
}

flap() {
    sleep 9
    at "$bump" ip link set dev end1 down
    sleep 1
    at "$bump" ip link set dev end1 up
}

# It leaves in the middle of a burst, in order and then without a word.
peer() {
    for signal in INT KILL; do
        timeout --signal=$signal --kill-after=10 4 dpdk-testpmd --lcores='(0,1)@0' --no-huge \
            -m128 --no-pci --no-shconf --no-telemetry --file-prefix="smoke-$$" \
            --vdev="net_memif0,role=client,id=0,$memif" \
            --vdev="net_memif1,role=client,id=1,$memif" \
            -- --no-mlockall --total-num-mbufs=8192 --forward-mode=flowgen --flowgen-clones=4 \
            --stats-period=60 || true
    done
}

# Without what a memif peer shares as long as it is there.
resident_kb() {
    awk '/^[0-9a-f]+-/ { shared = /memif_region/ } /^Rss:/ && !shared { sum += $2 }
        END { print sum }' "/proc/$program/smaps"
}

namespace a
a=$holder
namespace bump
bump=$holder
namespace b
b=$holder
cable "$a" 1
cable "$b" 2

# Not many more packet buffers than the queues can hold: a leak would soon be felt.
printf '[table]\ncapacity = 100_000\n[eal]\nmbufs = 12_000\n' >"$work/smoke.toml"
memif="socket=$work/memif,socket-abstract=no"
$mortal nsenter --net="/proc/$bump/ns/net" -- "$millrace" run "$work/smoke.toml" \
    --pair net_af_packet0,iface=end1,net_af_packet1,iface=end2 \
    --pair "net_memif0,role=server,id=0,$memif,net_memif1,role=server,id=1,$memif" \
    --json "$work/run.json" --flows "$work/flows.jsonl" >"$work/out" 2>"$work/err" &
program=$!
running="$running $program"
wait_for grep -q kpps "$work/out"

mkdir "$work/www"
head -c 20000 /dev/urandom >"$work/www/page"
start $mortal nsenter --net="/proc/$b/ns/net" -- python3 -m http.server 8080 --bind :: \
    --directory "$work/www" >/dev/null 2>&1
start $mortal nsenter --net="/proc/$b/ns/net" -- iperf3 --server >/dev/null 2>&1
wait_for fetch 10.9.0.2

start churn fetch 10.9.0.2
start churn fetch '[2001:db8::2]'
start churn at "$a" timeout 10 iperf3 --client 10.9.0.2 --time 3 --bitrate 200M
start churn at "$a" timeout 10 iperf3 --client 2001:db8::2 --time 3 --bitrate 50M --udp
start churn flap
start churn peer

# Everything is taken at start; a fifth of the time is more than enough to touch it all, but for the
# rings of flow records: there each takes a place that none had before, until all have been used.
sleep $((seconds / 5))
early_kb=$(resident_kb)
early_records=$(wc -l <"$work/flows.jsonl")
remaining=$((seconds - seconds / 5))
while [ $remaining -gt 0 ]; do
    kill -0 $program 2>/dev/null || fail "the bump is gone: $(cat "$work/err")"
    sleep 1
    remaining=$((remaining - 1))
done
late_kb=$(resident_kb)
late_records=$(wc -l <"$work/flows.jsonl")

# Silence, and what is left of it: no flow.
touch "$work/stop"
sleep 14
at "$bump" ip link set dev end1 up
wait_for fetch 10.9.0.2
at "$a" ping -c 3 -i 0.2 10.9.0.2 >/dev/null || fail "after all that, the hosts are apart"
at "$a" ip link set dev host1 down
at "$b" ip link set dev host2 down
# The eighth column of the line per second.
wait_for awk 'END { exit $8 != "0" }' "$work/out"
kill -INT $program
status=0
wait $program || status=$?
[ $status -eq 0 ] || fail "the bump ended with status $status: $(cat "$work/err")"

python3 - "$work" $((late_records - early_records)) "$early_kb" "$late_kb" <<'PYTHON'
import collections, json, sys

work, between, early_kb, late_kb = sys.argv[1], *map(int, sys.argv[2:])
# Two rings of 65536 places, each as large as the engine's FlowRecord.
rings_kb = min(between, 2 * 65536) * 176 // 1024
run = json.load(open(f"{work}/run.json"))
messages = collections.Counter(line.rsplit(": ", 1)[-1].strip() for line in open(f"{work}/err"))
records = sum(1 for _ in open(f"{work}/flows.jsonl"))
flows, ledger = run["flows"], run["ledger"]
print(f"packets      {ledger['rx']} received, {ledger['tx']} sent, {ledger['dropped']} dropped")
print(f"flows        {flows['created']} created, ended: {flows['ended']}")
print(f"resident     {early_kb} KB early, {late_kb} KB late, {rings_kb} KB of it for records")
for message, times in messages.most_common():
    print(f"{times:4} times   {message}")
checks = {
    "the ledger is balanced": ledger["balanced"],
    "every flow ended by its own": flows["active"] == 0 and flows["ended"]["exit"] == 0,
    "every flow left one record": records == flows["created"] == sum(flows["ended"].values()),
    "no record was lost": flows["records_lost"] == 0,
    "no packet found the pool empty": all(p["rx_nombuf"] == 0 for p in run["ports"]),
    "every buffer was used many times": ledger["rx"] > 10 * 12_000,
    "memory stayed as it was": late_kb - early_kb - rings_kb < 1024,
    "links came and went": messages["the link is up"] > 2,
}
for check, holds in checks.items():
    print("good  " if holds else "BAD   ", check)
sys.exit(not all(checks.values()))
PYTHON

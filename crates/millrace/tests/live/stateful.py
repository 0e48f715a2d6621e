# SPDX-License-Identifier: BSD-3-Clause
# Linux ends of TCP connections and UDP exchanges, as peers of `millrace gen --stateful`.
#
# usage: stateful.py server|client SPEC DATA
# SPEC: JSON {"address": ours or the server's, "kinds": [{"proto", "port", "request", "response",
# "close", "limit", ...}]}. A request is the first bytes of DATA, a response those from place 7 on.
# A server prints "ready", "done" when it has served all TCP connections, and a JSON line with what
# it counted when its standard input ends. A client makes all connections and prints that line.
#
# "close" names the end that closes first: "client", "server", "reset" (the client, with a RST),
# "half" (the client, before it reads the response), "both" (each without waiting for the other).
# "pause" is a time in seconds that the reader waits before it reads, "buffer" its receive buffer.
import json
import socket
import sys
import threading
import time

SHIFT = 7
PATIENCE = 60
# A datagram that is lost is not sent again.
UDP_PATIENCE = 2
mode, spec, data = sys.argv[1], json.loads(sys.argv[2]), open(sys.argv[3], "rb").read()
family = socket.AF_INET6 if ":" in spec["address"] else socket.AF_INET
completed, errors, lock = {}, [], threading.Lock()


def count(kind, fault=None):
    with lock:
        if fault is None:
            completed[kind["port"]] = completed.get(kind["port"], 0) + 1
        else:
            errors.append(f"port {kind['port']}: {fault}")


def receive(end, expected):
    received = bytearray()
    while len(received) < len(expected):
        part = end.recv(1 << 16)
        if not part:
            break
        received += part
    if received != expected:
        same = sum(1 for _ in zip(received, expected) if _[0] == _[1])
        raise ValueError(f"{len(received)} bytes of {len(expected)}, {same} of them equal")


def expect_end(end):
    rest = end.recv(1)
    if rest:
        raise ValueError("data after the end")


def opened(kind):
    is_udp = kind["proto"] == "udp"
    end = socket.socket(family, socket.SOCK_DGRAM if is_udp else socket.SOCK_STREAM)
    if "buffer" in kind:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kind["buffer"])
    return end


def messages(kind):
    request, response = data[: kind["request"]], data[SHIFT : SHIFT + kind["response"]]
    return request, response


def serve_one(kind, end):
    request, response = messages(kind)
    end.settimeout(PATIENCE)
    time.sleep(kind.get("pause", 0))
    receive(end, request)
    if kind["close"] == "half":
        expect_end(end)
    end.sendall(response)
    if kind["close"] in ("server", "both"):
        end.shutdown(socket.SHUT_WR)
    if kind["close"] == "reset":
        try:
            raise ValueError(f"{len(end.recv(1))} bytes instead of a RST")
        except ConnectionResetError:
            pass
    else:
        expect_end(end)
    end.close()


def guarded(kind, act, *arguments):
    try:
        act(kind, *arguments)
    except Exception as error:
        count(kind, f"{type(error).__name__} {error}")
    else:
        count(kind)


def serve_tcp(kind, listener):
    while True:
        end, _ = listener.accept()
        threading.Thread(target=guarded, args=(kind, serve_one, end), daemon=True).start()


def serve_udp(kind, end):
    request, response = messages(kind)
    while True:
        message, peer = end.recvfrom(1 << 16)
        count(kind, None if message == request else "another request")
        end.sendto(response, peer)


def connect_one(kind):
    request, response = messages(kind)
    end = opened(kind)
    end.settimeout(UDP_PATIENCE if kind["proto"] == "udp" else PATIENCE)
    end.connect((spec["address"], kind["port"]))
    if kind["proto"] == "udp":
        end.send(request)
        if end.recv(1 << 16) != response:
            raise ValueError("another response")
        return end.close()
    end.sendall(request)
    if kind["close"] in ("half", "both"):
        end.shutdown(socket.SHUT_WR)
    time.sleep(kind.get("pause", 0))
    receive(end, response)
    if kind["close"] == "reset":
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    elif kind["close"] != "client":
        expect_end(end)
    end.close()


def connect_all(kind, turns):
    for _ in range(turns):
        guarded(kind, connect_one)


def run_server():
    tcp = [kind for kind in spec["kinds"] if kind["proto"] == "tcp"]
    for kind in spec["kinds"]:
        end = opened(kind)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind((spec["address"], kind["port"]))
        if kind["proto"] == "tcp":
            end.listen(1024)
        serve = serve_udp if kind["proto"] == "udp" else serve_tcp
        threading.Thread(target=serve, args=(kind, end), daemon=True).start()
    print("ready", flush=True)
    while any(completed.get(kind["port"], 0) < kind["limit"] for kind in tcp) and not errors:
        time.sleep(0.01)
    print("done", flush=True)
    sys.stdin.read()


def run_client():
    threads = []
    for kind in spec["kinds"]:
        for turn in range(kind.get("threads", 4)):
            turns = (kind["limit"] + turn) // kind.get("threads", 4)
            threads.append(threading.Thread(target=connect_all, args=(kind, turns)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


run_server() if mode == "server" else run_client()
with lock:
    print(json.dumps({"completed": completed, "errors": errors[:20], "faults": len(errors)}))

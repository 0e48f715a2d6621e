# SPDX-License-Identifier: BSD-3-Clause
# Transfers data over TCP, and ends the connections in every way.
#
# usage: transfers.py serve ADDRESS PORT
#        transfers.py run ADDRESS PORT COUNT THREADS FIRST_SOURCE_PORT
# Each request is: bytes up, bytes down, whether the client has shut down its side after them. `run`
# prints the number of transfers, and a line for each that failed.
import random
import socket
import struct
import sys
import threading
import time

REQUEST = struct.Struct("<II?")
KINDS = ["close", "close", "half", "reset", "keepalive", "reuse"]


def take(end, count):
    while count:
        data = end.recv(min(65536, count))
        if not data:
            raise EOFError(f"{count} bytes are missing")
        count -= len(data)


def answer(end):
    try:
        while head := end.recv(REQUEST.size, socket.MSG_WAITALL):
            up, down, is_last = REQUEST.unpack(head)
            take(end, up)
            if is_last and end.recv(1):
                raise EOFError("data after the end")
            end.sendall(bytes(down))
    except (ConnectionResetError, BrokenPipeError, EOFError, struct.error):
        pass
    finally:
        end.close()


def ask(end, up, down, is_last):
    end.sendall(REQUEST.pack(up, down, is_last) + bytes(up))
    if is_last:
        end.shutdown(socket.SHUT_WR)
    take(end, down)


def transfer(peer, kind, source_port, chance):
    end = socket.socket()
    end.settimeout(30)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if kind == "reuse":
        end.bind(("", source_port))
    if kind == "keepalive":
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    end.connect(peer)
    for _ in range(chance.randrange(1, 4)):
        ask(end, chance.randrange(300_000), chance.randrange(300_000), False)
        if kind == "keepalive":
            time.sleep(1.2)
    if kind == "half":
        ask(end, 1000, 200_000, True)
    if kind in ("reset", "reuse"):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def client(peer, count, source_port, failures):
    chance = random.Random(source_port)
    for _ in range(count):
        kind = chance.choice(KINDS)
        try:
            # Ports that are used again at once.
            for _ in range(3 if kind == "reuse" else 1):
                transfer(peer, kind, source_port, chance)
        except (OSError, EOFError) as error:
            failures.append(f"{kind}: {error!r}")


peer = (sys.argv[2], int(sys.argv[3]))
if sys.argv[1] == "serve":
    listener = socket.create_server(peer, backlog=512)
    print("ready", flush=True)
    while True:
        end, _ = listener.accept()
        threading.Thread(target=answer, args=(end,), daemon=True).start()
count, threads, first = map(int, sys.argv[4:7])
failures = []
clients = [
    threading.Thread(target=client, args=(peer, count // threads, first + i, failures))
    for i in range(threads)
]
for one in clients:
    one.start()
for one in clients:
    one.join()
print(count // threads * threads)
print("\n".join(failures))

"""Locks by the class Lock of redis-py. Takes a JSON object as its argument, increments a counter under the lock, and
prints its result as JSON."""

import json
import random
import sys
import time

import redis
from redis.exceptions import LockError

options = json.loads(sys.argv[1])
server = redis.Redis(
    host=options["host"], port=options["port"], decode_responses=True, client_name=options["key"]
)
lock = server.lock(options["key"], timeout=options["leaseMs"] / 1000, sleep=0.004)
refused = lost = 0

for _ in range(options["rounds"]):
    if not lock.acquire(blocking=False):
        refused += 1
        lock.acquire()
    read = int(server.get(options["counter"]) or 0)
    time.sleep(0.001)
    server.set(options["counter"], read + 1)
    try:
        lock.release()
    except LockError:
        lost += 1
    time.sleep(random.uniform(0, 0.004))

print(json.dumps({"refused": refused, "lost": lost}))

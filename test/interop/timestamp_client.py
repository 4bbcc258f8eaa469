"""An independent client for timestamp locks, written from the steps of the algorithm without code of this library.

Takes a JSON object as its argument, increments a counter under the lock, and prints its result as JSON."""

import json
import random
import sys
import time

import redis

options = json.loads(sys.argv[1])
key, counter = options["key"], options["counter"]
lease, in_seconds = options["lease"], options["unit"] == "s"
server = redis.Redis(host=options["host"], port=options["port"], decode_responses=True)
added = 0
pace = options.get("paceMs")

def now():
    return int(time.time() if in_seconds else time.time() * 1000)

def set_ttl():
    server.expire(key, lease + 1) if in_seconds else server.pexpire(key, lease + 1)

def acquire(crashing):
    while True:
        expiry = now() + lease + 1
        if server.setnx(key, expiry):
            break
        held = server.get(key)
        if held is None:
            continue
        if now() > int(held):
            expiry = now() + lease + 1
            if server.getset(key, expiry) == held:
                break
            continue
        time.sleep(random.uniform(0.004, 0.008) if pace is None else pace / 1000)
    # A crash here leaves a key without a TTL, which only its value ends.
    if not crashing:
        set_ttl()
    return expiry

def release(expiry):
    if now() < expiry:
        server.delete(key)

rounds, crashes = options["rounds"], options["crashes"]
crash_in = random.sample(range(rounds), crashes)
for turn in range(rounds):
    expiry = acquire(turn in crash_in)
    if turn in crash_in:
        continue
    read = int(server.get(counter) or 0)
    time.sleep(random.uniform(0.001, 0.004))
    if now() < expiry:
        server.set(counter, read + 1)
        added += 1
    release(expiry)
    time.sleep(random.uniform(0, 0.004) if pace is None else pace / 1000)

print(json.dumps({"added": added}))

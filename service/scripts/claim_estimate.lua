#!lua
-- Claim the next estimate of the noise rates if it is due and not claimed.
-- KEYS: meta, estimate
-- ARGV: uid, token, lease (ms), every (bits heard; 0: only when asked for), drift (the last seq at
--       which clicks were seen to have changed; 0: never), silence ('1': it is a bit)
local meta, estimate = KEYS[1], KEYS[2]
local head = redis.call('HMGET', meta, 'uid', 'seq')
if head[1] ~= ARGV[1] then return {'gone'} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local was = redis.call('HMGET', estimate, 'lease', 'asked', 'at', 'done', 'at_seq')
if was[1] and tonumber(was[1]) > now then return {'busy'} end
--include _heard
local bits = heard(ARGV[6])
local every = tonumber(ARGV[4])
-- Whoever claims has folded up to the drift at least, so the claimed estimate has seen it: the
-- other workers, which notice the same drift, find it older than that.
local due = was[2] == '1' or (every > 0 and bits - tonumber(was[3] or '0') >= every)
  or tonumber(ARGV[5]) > tonumber(was[5] or '0')
if not due then return {'idle'} end
-- A claim that ended without a result leaves its try counted.
local tries = redis.call('HINCRBY', estimate, 'tries', 1)
redis.call('HSET', estimate, 'token', ARGV[2], 'lease', string.format('%.0f', now + tonumber(ARGV[3])),
  'started', string.format('%.0f', now), 'progress', '0', 'upto', string.format('%.0f', bits),
  'upto_seq', head[2])
return {'ok', tostring(tonumber(was[4] or '0') + 1), tostring(tries)}

#!lua flags=allow-oom
-- Store a snapshot if it is newer than the stored one and lies on this log's chain; keep the
-- one before; trim what neither recovery nor the model's keep needs. Trimming frees memory, so
-- it may run above maxmemory; without it nothing would be freed there any more.
-- Parts of states that neither of the two names go. If the newest one is to be replaced, it must
-- still be the one that is meant, whatever its seq.
-- KEYS: meta, snap, snap1, log, parts   ARGV: uid, seq, chain, digest, names,
-- keep, digest of the one to be replaced or nothing
local meta, snap, snap1, log, parts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
local seq = tonumber(ARGV[2])
local newest = tonumber(redis.call('HGET', snap, 'seq') or '0')
if ARGV[7] == '' then
  if seq <= newest then return {'older'} end
elseif redis.call('HGET', snap, 'digest') ~= ARGV[7] then
  return {'older'}
end
--include _lies_on
if not lies_on(ARGV[2], ARGV[3]) then return {'foreign'} end
local named = {}
for at = 1, #ARGV[5], 32 do
  local name = string.sub(ARGV[5], at, at + 31)
  if redis.call('HEXISTS', parts, name) == 0 then return {'lacking'} end
  named[name] = true
end
if newest > 0 then redis.call('RENAME', snap, snap1) end
redis.call('HSET', snap, 'seq', ARGV[2], 'chain', ARGV[3], 'digest', ARGV[4], 'parts', ARGV[5])
local before = redis.call('HGET', snap1, 'parts') or ''
for at = 1, #before, 32 do named[string.sub(before, at, at + 31)] = true end
for _, name in ipairs(redis.call('HKEYS', parts)) do
  if not named[name] then redis.call('HDEL', parts, name) end
end
-- Everything after the previous snapshot stays: it must still be usable if this one is lost.
local oldest = math.min(newest, tonumber(head[2]) - tonumber(ARGV[6])) + 1
if oldest > 1 then redis.call('XTRIM', log, 'MINID', '=', string.format('%.0f-0', oldest)) end
return {'ok'}

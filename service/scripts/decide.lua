#!lua
-- Record decisions. Refused above maxmemory: new decisions wait, feedback goes on. Refused too
-- unless the fold that made them, seq and chain, lies on this log: if Redis lost events that the
-- fold has, no propensity of the lost history may be recorded in this one.
-- With whole = 1 all are recorded or, if one is refused or was asked otherwise before, none.
-- KEYS: meta, pending, due, log, done
-- ARGV: uid, cap, window, width, seq, chain, whole, n, n x (nonce, repeatable, record)
local meta, pending, due, log, done = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local width = tonumber(ARGV[4])
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
--include _lies_on
if not lies_on(ARGV[5], ARGV[6]) then return {'foreign'} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stamp = struct.pack('>I8', now)
--include _done
local cap = tonumber(ARGV[2])
local deadline = string.format('%.0f', now + tonumber(ARGV[3]))
local waiting = redis.call('HLEN', pending)
local replies, fits = {}, true
local fresh, records, deadlines = {}, {}, {}
for i = 1, tonumber(ARGV[8]) do
  local at = 9 + (i - 1) * 3
  local nonce, repeatable, record = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local old = false
  if repeatable == '1' then
    old = fresh[nonce] or redis.call('HGET', pending, nonce)
    if not old then
      local past = recent_tombstone(nonce)
      if past then old = string.sub(past, 10) end
    end
  end
  if old then
    replies[i] = old
    -- The fingerprints of what was asked; what is stored has its time in front.
    if string.sub(old, 29, 36) ~= string.sub(record, 21, 28) then fits = false end
  elseif waiting >= cap then
    replies[i] = 'full'
    fits = false
  else
    record = stamp .. record
    fresh[nonce] = record
    local last = #records
    records[last + 1], records[last + 2] = nonce, record
    deadlines[last + 1], deadlines[last + 2] = deadline, nonce
    waiting = waiting + 1
    replies[i] = ''
  end
end
if ARGV[7] == '1' and not fits then
  return {'refused', string.format('%.0f', now), head[2], replies}
end
if #records > 0 then
  redis.call('HSET', pending, unpack(records))
  redis.call('ZADD', due, unpack(deadlines))
  redis.call('HINCRBY', meta, 'decisions', #records / 2)
end
return {'ok', string.format('%.0f', now), head[2], replies}

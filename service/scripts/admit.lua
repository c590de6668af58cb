#!lua flags=allow-oom
-- Admit feedback: consume the pending decision, take the next seq, log it, bury the decision. Or,
-- where silence is a bit, hold it until the window closes (expire.lua), when silence is known, too.
-- It frees memory, or will within a window, so it may run above maxmemory.
-- KEYS: meta, pending, due, log, done, held
-- ARGV: uid, width, window, after, limit, kept (1: the caller has the records, and can make what
--       is appended here by itself), hold (1: silence is a bit), n, n x (nonce, issued, feedback)
local meta, pending, due, log, done, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local hold = ARGV[7] == '1'
local width, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
--include _append
--include _done
local applied, clicks, expired, late, duplicates, conflicts = 0, 0, 0, 0, 0, 0

local ended = {}

local function end_decision(nonce, issued, kind, outcome, bit, record)
  append(kind, nonce, bit, record)
  bury(issued, nonce, outcome, seq, record)
  ended[#ended + 1] = nonce
end

-- The answer to feedback after the first, which has this seq, or none yet.
local function again(first, bit, at)
  if first == bit then
    duplicates = duplicates + 1
    return {'duplicate', at, first}
  end
  conflicts = conflicts + 1
  return {'conflict', at, first}
end

local function admit(nonce, issued, bit)
  local record = not just_buried(issued, nonce) and redis.call('HGET', pending, nonce)
  -- Under a request_id another decision may have been made since, of which this says nothing.
  if record and struct.unpack('>I8', string.sub(record, 1, 8)) == issued then
    local first = hold and redis.call('HGET', held, nonce)
    if first then return again(string.sub(first, 1, 1), bit, '') end
    if now > issued + window then
      end_decision(nonce, issued, 'x', 'x', '-', record)
      expired, late = expired + 1, late + 1
      return {'late', '', ''}
    end
    if hold then
      redis.call('HSET', held, nonce, bit .. stamp)
      return {'held', '', bit}
    end
    end_decision(nonce, issued, 'f', bit, bit, record)
    applied = applied + 1
    if bit == '1' then clicks = clicks + 1 end
    return {'applied', whole(seq), bit, chain}
  end
  local past = tombstone_of(issued, nonce)
  if past then
    local first = string.sub(past, 1, 1)
    if first == 'x' then
      late = late + 1
      return {'late', '', ''}
    end
    return again(first, bit, whole((struct.unpack('>I8', string.sub(past, 2, 9)))))
  end
  if now > issued + 2 * width then
    late = late + 1
    return {'late', '', ''}
  end
  return {'unknown', '', ''}
end

local replies = {}
for i = 1, tonumber(ARGV[8]) do
  local at = 9 + (i - 1) * 3
  replies[i] = admit(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2])
end
if #ended > 0 then
  redis.call('HDEL', pending, unpack(ended))
  redis.call('ZREM', due, unpack(ended))
  write_tombstones()
  save_head()
end
count('feedback', applied)
count('clicks', clicks)
count('expired', expired)
count('late', late)
count('duplicates', duplicates)
count('conflicts', conflicts)
local last = ARGV[6] == '1' and seq_before or seq
return {'ok', replies, unfolded(tonumber(ARGV[4]), last, ARGV[5]), whole(now)}

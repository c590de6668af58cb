-- Shared by the scripts that append to a log. The includer has set: meta, log (keys) and
-- head = {uid, seq, chain} as read from meta.
local seq = tonumber(head[2])
local seq_before = seq
local chain = head[3]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stamp = struct.pack('>I8', now)

local function whole(number)
  return string.format('%.0f', number)
end

-- Append one event: the only place where a seq is taken. `at`: when it came, if not now.
local function append(kind, nonce, feedback, record, at)
  seq = seq + 1
  local body = kind .. (at or stamp) .. nonce .. feedback .. record
  chain = string.sub(redis.sha1hex(chain .. body), 1, 16)
  redis.call('XADD', log, whole(seq) .. '-0', 'b', body, 'h', chain)
end

local function save_head()
  redis.call('HSET', meta, 'seq', whole(seq), 'chain', chain)
end

local function count(field, by)
  if by > 0 then redis.call('HINCRBY', meta, field, by) end
end

-- What the caller has not folded yet, up to `last`, so that it reads its own writes.
local function unfolded(after, last, limit)
  if last <= after then return {} end
  return redis.call('XRANGE', log, whole(after + 1) .. '-0', whole(last) .. '-0', 'COUNT', limit)
end

#!lua flags=allow-oom
-- End the decisions whose window has closed, in their order: one event each, whoever sweeps. It is
-- the feedback that was held till now, at the time when it came, or else the expiry.
-- KEYS: meta, pending, due, log, done, held   ARGV: uid, width, window, limit
local meta, pending, due, log, done, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local width, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
--include _append
--include _done
local ripe = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. whole(now), 'WITHSCORES', 'LIMIT', 0, ARGV[4])
local applied, clicks, expired, ended = 0, 0, 0, {}
for i = 1, #ripe, 2 do
  local nonce, issued = ripe[i], tonumber(ripe[i + 1]) - window
  local record = redis.call('HGET', pending, nonce)
  local heard = redis.call('HGET', held, nonce)
  if record and heard then
    local bit = string.sub(heard, 1, 1)
    append('f', nonce, bit, record, string.sub(heard, 2))
    bury(issued, nonce, bit, seq, record)
    applied = applied + 1
    if bit == '1' then clicks = clicks + 1 end
  elseif record then
    append('x', nonce, '-', record)
    bury(issued, nonce, 'x', seq, record)
    expired = expired + 1
  end
  ended[#ended + 1] = nonce
end
if #ended > 0 then
  redis.call('HDEL', pending, unpack(ended))
  redis.call('HDEL', held, unpack(ended))
  redis.call('ZREM', due, unpack(ended))
end
if seq > seq_before then
  write_tombstones()
  save_head()
end
count('feedback', applied)
count('clicks', clicks)
count('expired', expired)
return {'ok', applied + expired}

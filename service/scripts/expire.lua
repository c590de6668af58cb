#!lua flags=allow-oom
-- End the decisions whose window has closed: one expire event each, whoever sweeps.
-- KEYS: meta, pending, due, log, done   ARGV: uid, width, window, limit
local meta, pending, due, log, done = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local width, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
--include _append
--include _done
local ripe = redis.call('ZRANGEBYSCORE', due, '-inf', '(' .. whole(now), 'WITHSCORES', 'LIMIT', 0, ARGV[4])
local expired, ended = 0, {}
for i = 1, #ripe, 2 do
  local nonce, issued = ripe[i], tonumber(ripe[i + 1]) - window
  local record = redis.call('HGET', pending, nonce)
  if record then
    append('x', nonce, '-', record)
    bury(issued, nonce, 'x', seq, record)
    expired = expired + 1
  end
  ended[#ended + 1] = nonce
end
if #ended > 0 then
  redis.call('HDEL', pending, unpack(ended))
  redis.call('ZREM', due, unpack(ended))
end
if expired > 0 then
  write_tombstones()
  save_head()
end
count('expired', expired)
return {'ok', expired}

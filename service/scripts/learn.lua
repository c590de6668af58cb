#!lua
-- Log examples with their full label, each request once.
-- KEYS: meta, log, done   ARGV: uid, width, after, limit, n, n x (nonce, record)
-- What is appended here is not sent back: the caller has the records.
local meta, log, done = KEYS[1], KEYS[2], KEYS[3]
local width = tonumber(ARGV[2])
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
--include _append
--include _done
local replies = {}
local learned, duplicates, conflicts = 0, 0, 0
for i = 1, tonumber(ARGV[5]) do
  local at = 6 + (i - 1) * 2
  local nonce, record = ARGV[at], ARGV[at + 1]
  local past = recent_tombstone(nonce)
  if past then
    local same = string.sub(past, 10) == string.sub(redis.sha1hex(record), 1, HEAD_BYTES)
    if same then duplicates = duplicates + 1 else conflicts = conflicts + 1 end
    local at_seq = whole((struct.unpack('>I8', string.sub(past, 2, 9))))
    replies[i] = {same and 'duplicate' or 'conflict', at_seq, ''}
  else
    append('l', nonce, '-', record)
    bury(now, nonce, 'l', seq, redis.sha1hex(record))
    learned = learned + 1
    replies[i] = {'applied', whole(seq), '', chain}
  end
end
if learned > 0 then
  write_tombstones()
  save_head()
end
count('learned', learned)
count('duplicates', duplicates)
count('conflicts', conflicts)
return {'ok', replies, unfolded(tonumber(ARGV[3]), seq_before, ARGV[4]), whole(now)}

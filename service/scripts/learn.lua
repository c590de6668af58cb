#!lua
-- Log what is told, each request once: examples with their full label ('l'), and rounds that were
-- decided elsewhere ('o'). Refused unless the fold that the labels' codes are of, seq and chain, lies
-- on this log: if Redis lost a change of labels, a code may be another label's, or none's.
-- KEYS: meta, log, done
-- ARGV: uid, width, after, limit, seq, chain, n, n x (kind, nonce, bit ('-' for an example), record)
-- What is appended here is not sent back: the caller has the records.
local meta, log, done = KEYS[1], KEYS[2], KEYS[3]
local width = tonumber(ARGV[2])
local head = redis.call('HMGET', meta, 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
--include _lies_on
if not lies_on(ARGV[5], ARGV[6]) then return {'foreign'} end
--include _append
--include _done
local replies = {}
local applied = {l = 0, o = 0}
local duplicates, conflicts = 0, 0
for i = 1, tonumber(ARGV[7]) do
  local at = 8 + (i - 1) * 4
  local kind, nonce, bit, record = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local told = bit == '-' and '' or bit
  local digest = redis.sha1hex(told .. record)
  local past = recent_tombstone(nonce)
  if past then
    local at_seq = whole((struct.unpack('>I8', string.sub(past, 2, 9))))
    if string.sub(past, 10) == string.sub(digest, 1, HEAD_BYTES) then
      duplicates = duplicates + 1
      replies[i] = {'duplicate', at_seq, told}
    else
      conflicts = conflicts + 1
      replies[i] = {'conflict', at_seq, ''}
    end
  else
    append(kind, nonce, bit, record)
    bury(now, nonce, kind, seq, digest)
    applied[kind] = applied[kind] + 1
    replies[i] = {'applied', whole(seq), told, chain}
  end
end
if seq > seq_before then
  write_tombstones()
  save_head()
end
count('learned', applied.l)
count('told', applied.o)
count('duplicates', duplicates)
count('conflicts', conflicts)
return {'ok', replies, unfolded(tonumber(ARGV[3]), seq_before, ARGV[4]), whole(now)}

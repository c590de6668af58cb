#!lua flags=no-writes
-- Read the head of a log and what follows `after`, in one view.
-- KEYS: meta, log   ARGV: uid, after, limit
local head = redis.call('HMGET', KEYS[1], 'uid', 'seq', 'chain')
if head[1] ~= ARGV[1] then return {'gone'} end
local after = tonumber(ARGV[2])
local entries = {}
if tonumber(head[2]) > after then
  entries = redis.call('XRANGE', KEYS[2], string.format('%.0f-0', after + 1), '+', 'COUNT', ARGV[3])
end
return {'ok', head[2], head[3], entries}

-- Whether a fold, by its seq and chain, lies on the log. The includer has set: log and head = {uid,
-- seq, chain} as read from meta.
local function lies_on(seq_of_fold, chain_of_fold)
  if seq_of_fold == head[2] then return chain_of_fold == head[3] end
  if seq_of_fold == '0' then return true end
  local id = seq_of_fold .. '-0'
  local entry = redis.call('XRANGE', log, id, id)[1]
  return entry and entry[2][4] == chain_of_fold
end

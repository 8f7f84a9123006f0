-- Adds entries to a response that has not ended, and renews the lease of its process.
-- KEYS: record, events, state. ARGV: status, lease and lifetime in ms, number of the first entry, and
-- contents. Returns 0 if the response has ended or is lost; for the number 0, if there is one.
local first = tonumber(ARGV[4])
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('EXISTS', KEYS[2]) == (first == 0 and 1 or 0) then
    return 0
end
for at = 0, #ARGV - 5 do
    local id = first == 0 and '0-' .. at + 1 or first + at .. '-0'
    if #redis.call('XRANGE', KEYS[2], id, '+', 'COUNT', 1) == 0 then -- else it was written before
        redis.call('XADD', KEYS[2], id, 'data', ARGV[at + 5])
    end
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return 1

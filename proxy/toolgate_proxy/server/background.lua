-- Adds entries to a response that has not ended, and renews the lease of its process.
-- KEYS: record, events, state. ARGV: status, lease and lifetime in ms, and ID and content of each
-- entry. Returns 0 if the response has ended or is lost; for the entry 0-1, if there is one.
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('EXISTS', KEYS[2]) == (ARGV[4] == '0-1' and 1 or 0) then
    return 0
end
for at = 4, #ARGV, 2 do
    redis.call('XADD', KEYS[2], ARGV[at], 'data', ARGV[at + 1])
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return 1

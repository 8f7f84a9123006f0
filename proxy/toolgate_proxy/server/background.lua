-- Adds entries to a list of a response that has not ended, and renews the lease of its process.
-- KEYS: record, queued, lease, list. ARGV: lease and lifetime in ms, number of the first entry,
-- entries. Returns 0 if the response has ended or is lost; for `queued`, if there is one.
local written = redis.call('LLEN', KEYS[4]) - ARGV[3] -- by an attempt whose reply was lost
local is_known = redis.call('EXISTS', KEYS[2]) == 1
if redis.call('EXISTS', KEYS[1]) == 1 or is_known == (KEYS[2] == KEYS[4]) or written < 0 then
    return 0
end
for at = 4 + written, #ARGV do
    redis.call('RPUSH', KEYS[4], ARGV[at])
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('PEXPIRE', KEYS[4], ARGV[2])
redis.call('SET', KEYS[3], '', 'PX', ARGV[1])
return 1

-- News of a request that was let in: what it used beyond what was set aside, and whether it goes on.
-- KEYS: tokens, leases, days
-- ARGV: window ms, slices, tokens beyond those counted, the slice (0 where only days are counted)
--       and the day they were set aside in, request id, lease ms (0 when the request has ended, -1
--       when it holds none)
local width = tonumber(ARGV[1]) / tonumber(ARGV[2])
local tokens, lease = tonumber(ARGV[3]), tonumber(ARGV[7])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tokens > 0 and ARGV[4] ~= '0' then
    -- Used just now, however long ago the request began.
    redis.call('HINCRBY', KEYS[1], math.floor(now / width), tokens)
    redis.call('PEXPIRE', KEYS[1], math.ceil((tonumber(ARGV[1]) + 2 * width) / 1000) * 1000)
elseif tokens < 0 and redis.call('HEXISTS', KEYS[1], ARGV[4]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[4], tokens)
end
if tokens ~= 0 then
    redis.call('HINCRBY', KEYS[3], ARGV[5], tokens)
    redis.call('HDEL', KEYS[3], ARGV[5] - 2)
    redis.call('PEXPIRE', KEYS[3], 2 * 86400000)
end
if lease > 0 then
    redis.call('ZADD', KEYS[2], now + lease, ARGV[6])
    redis.call('PEXPIRE', KEYS[2], lease)
elseif lease == 0 then
    redis.call('ZREM', KEYS[2], ARGV[6])
end
return 1

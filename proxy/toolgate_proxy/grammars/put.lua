-- Writes records of verdicts. Of one owner there are at most so many: the oldest ones are dropped.
-- KEYS: index, records.
-- ARGV: maximum number, lifetime of the index in ms, and for each record itself and its lifetime in ms.
-- index: sorted set, name of a record → time at which it was written, in ms.
local index, most = KEYS[1], tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 2, #KEYS do
    -- First, so that Redis without memory refuses it before anything is dropped.
    redis.call('SET', KEYS[at], ARGV[2 * at - 1], 'PX', ARGV[2 * at])
    redis.call('ZADD', index, now, KEYS[at])
end
redis.call('PEXPIRE', index, ARGV[2])
local excess = redis.call('ZCARD', index) - most
if excess > 0 then
    local oldest = redis.call('ZPOPMIN', index, excess) -- each with its time
    for at = 1, #oldest, 2 do
        redis.call('DEL', oldest[at])
    end
end
return excess

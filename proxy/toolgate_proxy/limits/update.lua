-- Corrects the counters of a request that was admitted, and renews or releases its leases.
-- KEYS: the counter of each change.
-- ARGV: a JSON array of the request id, lease ms (0 if the request has ended), slices of a sliding
--       window, and an array for each change: type of its window (sliding, fixed or in_flight),
--       window ms, amount, and the period that the request was counted in.
-- Returns: for each counter of a wrong type, or with a value that is no integer, a sentence that
-- names it. It is left as it is, and the other counters are corrected.
local kept = 90 * 86400000 -- ms for which `last` is kept
local request, lease, slices, changes = unpack(cjson.decode(ARGV[1]))
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local wrong = {}

-- What a script has written stays if it fails later, so a failure must not end it.
local function add(key, field, amount)
    local reply = redis.pcall('HINCRBY', key, field, amount)
    if type(reply) == 'table' and reply.err then
        if string.sub(reply.err, 1, 3) == 'OOM' then
            error(reply.err) -- nothing was written
        end
        wrong[#wrong + 1] = 'WRONGTYPE ' .. key .. ': ' .. reply.err
    end
end

-- Redis that is out of memory refuses HINCRBY, unless the script has written before. This write needs
-- no memory.
local left = redis.call('PTTL', KEYS[1])
if left > 0 then
    redis.call('PEXPIRE', KEYS[1], left)
end

for at, key in ipairs(KEYS) do
    local window_type, window, amount, period = unpack(changes[at])
    local found, wanted = redis.call('TYPE', key).ok, window_type == 'in_flight' and 'zset' or 'hash'
    if found ~= 'none' and found ~= wanted then
        wrong[#wrong + 1] = 'WRONGTYPE ' .. key .. ' is a ' .. found .. ', but must be a ' .. wanted
    elseif window_type == 'sliding' and amount > 0 then
        -- Used just now, however long ago the request began.
        local width = window / slices
        add(key, math.floor(now / width), amount)
        redis.call('PEXPIRE', key, math.ceil((window + 2 * width) / 1000) * 1000)
    elseif window_type == 'sliding' then
        if redis.call('HEXISTS', key, period) == 1 then
            add(key, period, amount)
        end
    elseif window_type == 'fixed' then
        add(key, period, amount)
        redis.call('HDEL', key, period - 2)
        redis.call('HSET', key, 'last', now)
        redis.call('PEXPIRE', key, math.max(2 * window, kept))
    elseif lease > 0 then
        redis.call('ZADD', key, now + lease, request)
        redis.call('PEXPIRE', key, lease)
    else
        redis.call('ZREM', key, request)
    end
end
return wrong

-- Admits one request under all limits of its key, or counts nothing of it.
-- KEYS: the counter of each limit.
-- ARGV: a JSON array of the request id, lease ms, slices of a sliding window, and an array for each
--       limit: type of its window (sliding, fixed or in_flight), window ms, limit (-1 for none),
--       amount to add.
-- Returns: position of the limit that refused (0 for none), ms to wait (-1 if the request exceeds
--          the limit alone); then for each limit: amount used, ms to reset, period.
-- An error names a counter of a wrong type, or with a value that is no integer. Nothing is counted
-- then.
-- Counters: sliding and fixed: hash, period → amount; in_flight: sorted set, request id → expiry.
-- The hash of a fixed window also has `last`: time of the last request, in ms since 1970.
local kept = 90 * 86400000 -- ms for which `last` is kept
local request, lease, slices, limits = unpack(cjson.decode(ARGV[1]))
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Ms until slices of a sliding window have expired of which at least `excess` was used.
local function wait(stored, oldest, excess, width, window)
    local counts = {}
    for at = 1, #stored, 2 do
        local slice, count = tonumber(stored[at]), tonumber(stored[at + 1])
        if slice >= oldest then
            counts[#counts + 1] = { slice, count }
        end
    end
    table.sort(counts, function(a, b) return a[1] < b[1] end)
    for _, each in ipairs(counts) do
        excess = excess - each[2]
        if each[2] > 0 and excess <= 0 then
            return (each[1] + 1) * width + window - now
        end
    end
    return 0
end

-- A value of a counter. Checked before the first write: what a script has written stays if it fails
-- later, and HINCRBY would refuse this value.
local function integer(key, value)
    local number = tonumber(value)
    if not number or number % 1 ~= 0 or math.abs(number) > 2 ^ 53 then
        error('WRONGTYPE ' .. key .. ' has a value that is no integer')
    end
    return number
end

for at, key in ipairs(KEYS) do
    local found, wanted = redis.call('TYPE', key).ok, limits[at][1] == 'in_flight' and 'zset' or 'hash'
    if found ~= 'none' and found ~= wanted then
        return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', but must be a ' .. wanted)
    end
end

local refused, ms, used, reset, period = 0, 0, {}, {}, {}
for at, key in ipairs(KEYS) do
    local type, window, limit, amount = unpack(limits[at])
    local count, current, left, stored, width = 0, 0, 0, nil, window / slices
    if type == 'sliding' then
        current = math.floor(now / width)
        stored = redis.call('HGETALL', key)
        local last
        for field = 1, #stored, 2 do
            local slice, part = integer(key, stored[field]), integer(key, stored[field + 1])
            if slice < current - slices then
                redis.call('HDEL', key, stored[field]) -- it no longer counts
            else
                count = count + part -- less than 0 if more was returned than it counts
                if part > 0 and (not last or slice > last) then
                    last = slice
                end
            end
        end
        count = math.max(0, count)
        left = last and math.max(0, (last + 1) * width + window - now) or 0
    elseif type == 'fixed' then
        current = math.floor(now / window)
        count = integer(key, redis.call('HGET', key, current) or 0)
        left = count > 0 and (current + 1) * window - now or 0
    else
        redis.call('ZREMRANGEBYSCORE', key, '-inf', now) -- leases that were not renewed
        count = redis.call('ZCARD', key)
    end
    if refused == 0 and limit >= 0 and count + amount > limit then
        refused = at
        if amount > limit then
            ms = -1
        elseif type == 'sliding' then
            ms = wait(stored, current - slices, count + amount - limit, width, window)
        elseif type == 'fixed' then
            ms = (current + 1) * window - now
        end
    end
    used[at], reset[at], period[at] = count, left, current
end

if refused == 0 then
    -- Redis that is out of memory refuses HINCRBY and ZADD, unless the script has written before.
    -- This write needs no memory. The expiry is set again below.
    redis.call('PEXPIRE', KEYS[1], 2 * 86400000)
    for at, key in ipairs(KEYS) do
        local type, window, _, amount = unpack(limits[at])
        local width = window / slices
        if type == 'sliding' then
            redis.call('HINCRBY', key, period[at], amount)
            redis.call('PEXPIRE', key, math.ceil((window + 2 * width) / 1000) * 1000)
            if amount > 0 then
                reset[at] = (period[at] + 1) * width + window - now
            end
        elseif type == 'fixed' then
            redis.call('HINCRBY', key, period[at], amount)
            redis.call('HDEL', key, period[at] - 2)
            redis.call('HSET', key, 'last', now)
            redis.call('PEXPIRE', key, math.max(2 * window, kept))
            if used[at] + amount > 0 then
                reset[at] = (period[at] + 1) * window - now
            end
        else
            redis.call('ZADD', key, now + lease, request)
            redis.call('PEXPIRE', key, lease)
        end
        used[at] = used[at] + amount
    end
end

local reply = { refused, math.ceil(ms) }
for at = 1, #KEYS do
    reply[3 * at] = used[at]
    reply[3 * at + 1] = math.ceil(reset[at])
    reply[3 * at + 2] = period[at]
end
return reply

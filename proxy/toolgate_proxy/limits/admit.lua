-- Admits one request under all limits of its key, or counts nothing of it.
-- KEYS: the counter of each limit.
-- ARGV: request id, lease ms, slices of a sliding window; then for each limit: type of its window
--       (sliding, fixed or in_flight), window ms, limit (-1 for none), amount to add.
-- Returns: position of the limit that refused (0 for none), ms to wait (-1 if the request exceeds
--          the limit alone); then for each limit: amount used, ms to reset, period.
-- Counters: sliding and fixed: hash, period → amount; in_flight: sorted set, request id → expiry.
local request, lease, slices = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local sliding, fixed, in_flight = {}, {}, {}

-- When a slice no longer counts.
local function expiry(limit, slice)
    return (slice + 1) * limit.width + limit.window - now
end

-- Drops the slices that no longer count.
function sliding.read(limit)
    local width = limit.window / slices
    local period = math.floor(now / width)
    local stored, oldest, used, last = redis.call('HGETALL', limit.key), period - slices, 0, nil
    for at = 1, #stored, 2 do
        local slice, count = tonumber(stored[at]), tonumber(stored[at + 1])
        if slice < oldest then
            redis.call('HDEL', limit.key, stored[at])
        elseif count > 0 then
            used = used + count
            if not last or slice > last then
                last = slice
            end
        end
    end
    limit.width, limit.period, limit.stored = width, period, stored
    limit.used, limit.last = used, last
end

function sliding.wait(limit)
    local counts, used = {}, limit.used
    for at = 1, #limit.stored, 2 do
        local slice, count = tonumber(limit.stored[at]), tonumber(limit.stored[at + 1])
        if slice >= limit.period - slices and count > 0 then
            counts[#counts + 1] = { slice, count }
        end
    end
    table.sort(counts, function(a, b) return a[1] < b[1] end)
    for _, each in ipairs(counts) do
        used = used - each[2]
        if used + limit.amount <= limit.max then
            return expiry(limit, each[1])
        end
    end
    return 0
end

function sliding.add(limit)
    redis.call('HINCRBY', limit.key, limit.period, limit.amount)
    redis.call('PEXPIRE', limit.key, math.ceil((limit.window + 2 * limit.width) / 1000) * 1000)
    if limit.amount > 0 then
        limit.used, limit.last = limit.used + limit.amount, limit.period
    end
end

function sliding.reset(limit)
    return limit.last and math.max(0, expiry(limit, limit.last)) or 0
end

function fixed.read(limit)
    limit.period = math.floor(now / limit.window)
    limit.used = tonumber(redis.call('HGET', limit.key, limit.period) or 0)
end

function fixed.wait(limit)
    return (limit.period + 1) * limit.window - now
end

function fixed.add(limit)
    limit.used = redis.call('HINCRBY', limit.key, limit.period, limit.amount)
    redis.call('HDEL', limit.key, limit.period - 2)
    redis.call('PEXPIRE', limit.key, 2 * limit.window)
end

function fixed.reset(limit)
    return limit.used > 0 and fixed.wait(limit) or 0
end

-- Leases that a gateway did not renew have expired.
function in_flight.read(limit)
    redis.call('ZREMRANGEBYSCORE', limit.key, '-inf', now)
    limit.used = redis.call('ZCARD', limit.key)
end

function in_flight.wait()
    return 0
end

function in_flight.add(limit)
    redis.call('ZADD', limit.key, now + lease, request)
    redis.call('PEXPIRE', limit.key, lease)
    limit.used = limit.used + 1
end

function in_flight.reset()
    return 0
end

local windows = { sliding = sliding, fixed = fixed, in_flight = in_flight }
local limits, refused, wait = {}, 0, 0
for at, key in ipairs(KEYS) do
    local from = 4 * at
    local limit = {
        key = key,
        type = windows[ARGV[from]],
        window = tonumber(ARGV[from + 1]),
        max = tonumber(ARGV[from + 2]),
        amount = tonumber(ARGV[from + 3]),
        used = 0,
        period = 0,
    }
    limit.type.read(limit)
    limits[at] = limit
    if refused == 0 and limit.max >= 0 and limit.used + limit.amount > limit.max then
        refused = at
        wait = limit.amount > limit.max and -1 or limit.type.wait(limit)
    end
end

if refused == 0 then
    -- Redis that is out of memory refuses HINCRBY and ZADD, unless the script has written before.
    -- This write needs no memory; `add` sets the expiry again.
    redis.call('PEXPIRE', KEYS[1], 2 * 86400000)
end
local reply = { refused, math.ceil(wait) }
for _, limit in ipairs(limits) do
    if refused == 0 then
        limit.type.add(limit)
    end
    reply[#reply + 1] = limit.used
    reply[#reply + 1] = math.ceil(limit.type.reset(limit))
    reply[#reply + 1] = limit.period
end
return reply

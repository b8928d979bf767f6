
-- Everything below is the same in all dissectors.

local proto = Proto(settings.protocol, settings.title)

local fields = {}
for at, row in ipairs(rows) do
    local name, label, kind, names = row[1], row[2], row[3], row[4]
    if kind == "enum" then
        fields[at] = ProtoField.int32(name, label, base.DEC, names)
    elseif kind == "uint32" or kind == "uint64" then
        fields[at] = ProtoField[kind](name, label, base.DEC_HEX)
    elseif kind == "int32" or kind == "int64" then
        fields[at] = ProtoField[kind](name, label, base.DEC)
    else
        fields[at] = ProtoField[kind](name, label)
    end
end
proto.fields = fields

local malformed = ProtoExpert.new(settings.protocol .. ".malformed", "Malformed message",
    expert.group.MALFORMED, expert.severity.ERROR)
local unread = ProtoExpert.new(settings.protocol .. ".unread", "Content that is not of this form",
    expert.group.UNDECODED, expert.severity.NOTE)
local cut = ProtoExpert.new(settings.protocol .. ".cut", "Not all of the message is shown",
    expert.group.UNDECODED, expert.severity.NOTE)
local lost = ProtoExpert.new(settings.protocol .. ".lost", "A part of the message is missing",
    expert.group.REASSEMBLE, expert.severity.WARN)
local truncated = ProtoExpert.new(settings.protocol .. ".truncated", "Not all was captured",
    expert.group.UNDECODED, expert.severity.WARN)
local external = ProtoExpert.new(settings.protocol .. ".external", "Only its code knows this type",
    expert.group.UNDECODED, expert.severity.NOTE)
proto.experts = { malformed, unread, cut, lost, truncated, external }

-- Which overlays decode opaque fields: 0 for all of them.
local choices = { { 1, "all", 0 } }
for at, module in ipairs(overlays) do
    choices[#choices + 1] = { at + 1, module, at }
end
proto.prefs.overlays = Pref.enum("Overlays", 0, "The overlays that decode opaque fields", choices, false)

-- The limits of the decoder of xdrgen, and two for what is shown: Wireshark's own are higher.
local MAX_DEPTH = 64
local MAX_ELEMENTS = 16777216
local MAX_EMPTY_ELEMENTS = 65536
local MAX_OVERLAYS = 4
local MAX_ITEMS = 50000
local MAX_TREE_DEPTH = 200
-- The longest Send that is reassembled.
local MAX_MESSAGE = 16777216

-- The state of a decode: the bytes up to `stop`, the next offset, and what may still be used. With
-- `ended`, nothing follows that can be decoded.

local function fail(state, what, at)
    local path = table.concat(state.path, ".", 1, state.steps):gsub("%.%[", "[")
    error({ what = what, at = at or state.at, path = path }, 0)
end

local function take(state, length)
    local at = state.at
    if length > state.stop - at then
        fail(state, "unexpected end")
    end
    state.at = at + length
    return at
end

local function word(state)
    return state.tvb(take(state, 4), 4):uint()
end

local function padded(state, length)
    local at = take(state, length)
    local padding = (4 - length % 4) % 4
    local begin = take(state, padding)
    for offset = begin, begin + padding - 1 do
        if state.tvb(offset, 1):uint() ~= 0 then
            fail(state, "padding is not zero", begin)
        end
    end
    return at
end

local function length_of(state, max)
    local at = state.at
    local length = word(state)
    if max and length > max then
        fail(state, "longer than its maximum", at)
    end
    return length
end

local function truth(state)
    local at = state.at
    local value = word(state)
    if value > 1 then
        fail(state, "boolean is neither 0 nor 1", at)
    end
    return value == 1
end

local function charge(state, count)
    state.elements = state.elements - count
    if state.elements < 0 then
        fail(state, "too many elements")
    end
end

local function enter(state, step)
    state.steps = state.steps + 1
    state.path[state.steps] = step
end

local function leave(state)
    state.steps = state.steps - 1
end

-- Returns a subtree or an item, or nothing if enough is shown. A message in several pieces has no
-- bytes outside of them, so that ranges may be empty.
local function show(state, tree, field, at, length, text)
    if not tree then
        return nil
    end
    if state.items >= MAX_ITEMS then
        state.cut = true
        return nil
    end
    state.items = state.items + 1
    local range = state.tvb(at, length)
    if field and rows[field][3] == "string" then
        return tree:add_packet_field(fields[field], range, ENC_UTF_8)
    elseif field then
        return tree:add(fields[field], range)
    end
    return tree:add(range, text)
end

-- Sets the length of a subtree whose end is known only now.
local function close(state, item, begin)
    if item then
        item:set_len(state.at - begin)
    end
end

local function branch(state, tree, slot, begin, text)
    if state.depth_shown >= MAX_TREE_DEPTH then
        state.cut = true
        return nil
    end
    local item = show(state, tree, slot.f, begin, 0)
    if item and text then
        item:append_text(text)
    end
    return item
end

local read -- below

local function deeper(state, deep, ...)
    if not deep then
        return read(state, ...)
    end
    if state.depth == 0 then
        fail(state, "nested too deeply")
    end
    state.depth = state.depth - 1
    read(state, ...)
    state.depth = state.depth + 1
end

-- An element is shown by the field of the elements, or as a subtree with its number.
local function element(state, tree, slot, kind, deep, index)
    local label = "[" .. index .. "]"
    enter(state, label)
    local inner = { l = label, f = false, i = slot.i, t = kind }
    while kind.k == "optional" or kind.k == "nested" do
        kind = kind.of
    end
    local k = kind.k == "named" and types[kind.t].k or kind.k
    if k == "number" or k == "bool" or k == "enum" or k == "fixed" or k == "counted"
        or k == "external" then
        inner.f = slot.i
    end
    deeper(state, deep, tree, inner)
    leave(state)
end

local kinds = {}

-- The bounds of a subtree are known at its end; a subtree without a field has its label.
local function parent(state, tree, slot, text, fill)
    local begin = state.at
    local item
    if slot.f then
        item = branch(state, tree, slot, begin, text)
    elseif state.depth_shown < MAX_TREE_DEPTH then
        item = show(state, tree, nil, begin, 0, slot.l .. (text or ""))
    else
        state.cut = true
    end
    state.depth_shown = state.depth_shown + 1
    fill(item)
    state.depth_shown = state.depth_shown - 1
    close(state, item, begin)
end

local function leaf(state, tree, slot, at, length)
    return show(state, tree, slot.f, at, length, slot.l)
end

function kinds.empty(state, tree, slot)
    show(state, tree, slot.f, state.at, 0, slot.l)
end

function kinds.number(state, tree, slot, kind)
    local at = take(state, kind.n)
    leaf(state, tree, slot, at, kind.n)
    if kind.u then
        return state.tvb(at, 4):uint()
    end
end

function kinds.bool(state, tree, slot)
    local at = state.at
    local value = truth(state)
    leaf(state, tree, slot, at, 4)
    return value and 1 or 0
end

function kinds.fixed(state, tree, slot, kind)
    local at = padded(state, kind.n)
    leaf(state, tree, slot, at, kind.n)
end

-- Where the value ends is not known, so that it may be all of the rest.
function kinds.external(state, tree, slot)
    local at = take(state, 4)
    state.at, state.ended = state.stop, true
    local item = leaf(state, tree, slot, at, state.stop - at)
    if item then
        item:add_proto_expert_info(external)
    end
end

-- Returns where the content is, and its item.
function kinds.counted(state, tree, slot, kind)
    local length = length_of(state, kind.max)
    local at = padded(state, length)
    return { at = at, length = length, item = leaf(state, tree, slot, at, length) }
end

function kinds.nested(state, tree, slot, kind)
    deeper(state, true, tree, { l = slot.l, f = slot.f, i = slot.i, t = kind.of })
end

function kinds.vector(state, tree, slot, kind)
    parent(state, tree, slot, nil, function(item)
        for index = 0, kind.n - 1 do
            if state.ended then
                break
            end
            element(state, item, slot, kind.of, false, index)
        end
    end)
end

function kinds.array(state, tree, slot, kind)
    parent(state, tree, slot, nil, function(item)
        local count = length_of(state, kind.max)
        local empty = kind.of.k == "empty"
        if empty and count > MAX_EMPTY_ELEMENTS then
            fail(state, "too many elements")
        end
        charge(state, count)
        if item then
            item:append_text(": " .. count .. (count == 1 and " element" or " elements"))
        end
        if empty then
            return
        end
        for index = 0, count - 1 do
            if state.ended then
                break
            end
            element(state, item, slot, kind.of, kind.deep, index)
        end
    end)
end

function kinds.list(state, tree, slot, kind)
    parent(state, tree, slot, nil, function(item)
        local count = 0
        while not state.ended and truth(state) do
            charge(state, 1)
            element(state, item, slot, kind.of, kind.deep, count)
            count = count + 1
        end
        if item then
            item:append_text(": " .. count .. (count == 1 and " element" or " elements"))
        end
    end)
end

function kinds.optional(state, tree, slot, kind)
    local at = state.at
    if not truth(state) then
        show(state, tree, nil, at, 4, slot.l .. ": absent")
        return
    end
    deeper(state, kind.deep, tree, { l = slot.l, f = slot.f, i = slot.i, t = kind.of })
end

function kinds.enum(state, tree, slot, kind)
    local at = state.at
    local value = state.tvb(take(state, 4), 4):int()
    if not kind.n[value] and not kind.open then
        fail(state, "value is not a member of the enum", at)
    end
    leaf(state, tree, slot, at, 4)
    return value
end

-- Decodes the content of an opaque by an overlay, as a decode of its own.
local function reading(state, tree, slot, content)
    local inner = {
        tvb = state.tvb, at = content.at, stop = content.at + content.length,
        depth = MAX_DEPTH, elements = MAX_ELEMENTS, overlays = state.overlays + 1,
        items = state.items, depth_shown = state.depth_shown, path = {}, steps = 0, cases = {},
    }
    for step = 1, state.steps do
        enter(inner, state.path[step])
    end
    local ok, problem = pcall(function()
        read(inner, tree, slot)
        if inner.at < inner.stop then
            fail(inner, "bytes are left over")
        end
    end)
    state.items, state.cut = inner.items, state.cut or inner.cut
    return ok, problem
end

local function describe(problem)
    if type(problem) ~= "table" then
        return tostring(problem)
    end
    local path = problem.path == "" and "" or problem.path .. ": "
    return path .. problem.what .. " at byte " .. problem.at
end

-- Returns the case of an overlay that has the code.
local function case_of(overlay, code)
    for _, case in ipairs(overlay.c) do
        if case[1] == code then
            return case[2]
        end
    end
end

-- Adds what the overlays make of opaque fields.
local function add_readings(state, values, kind)
    for _, overlay in ipairs(kind.o) do
        local chosen = proto.prefs.overlays
        local code, content = values[overlay.code], values[overlay.data]
        local slot = case_of(overlay, code)
        if slot and (chosen == 0 or chosen == overlay.m) and type(content) == "table" then
            if state.overlays == 0 and state.cases[#state.cases] ~= slot.l then
                state.cases[#state.cases + 1] = slot.l
            end
            local text = slot.l .. " (" .. overlays[overlay.m] .. ")"
            local item = show(state, content.item, nil, content.at, content.length, text)
            if content.length == 0 and overlay.empty then
                if item then
                    item:append_text(": the default value")
                end
            else
                local ok, problem = reading(state, item, slot, content)
                if not ok and item then
                    item:add_proto_expert_info(unread, describe(problem))
                end
            end
        end
    end
end

function kinds.struct(state, tree, slot, kind)
    parent(state, tree, slot, nil, function(item)
        local values = {}
        for at, field in ipairs(kind.f) do
            if state.ended then
                break
            end
            enter(state, field.l)
            values[at] = read(state, item, field)
            leave(state)
        end
        if kind.o and state.overlays < MAX_OVERLAYS then
            add_readings(state, values, kind)
        end
    end)
end

function kinds.union(state, tree, slot, kind)
    parent(state, tree, slot, nil, function(item)
        local begin = state.at
        local value = state.tvb(take(state, 4), 4):uint()
        local content, case = kind.d, "default"
        for _, arm in ipairs(kind.a) do
            if arm[1] == value then
                content, case = arm[2], arm[3]
                break
            end
        end
        if not content then
            fail(state, "no arm has the discriminant", begin)
        end
        state.at = begin
        read(state, item, kind.s)
        if #state.cases == 0 then
            state.cases[1] = case
        end
        if kind.c[content] then
            enter(state, kind.c[content].l)
            read(state, item, kind.c[content])
            leave(state)
        end
    end)
end

function kinds.named(state, tree, slot, kind)
    local definition = types[kind.t]
    return kinds[definition.k](state, tree, slot, definition)
end

function read(state, tree, slot)
    return kinds[slot.t.k](state, tree, slot, slot.t)
end

-- Returns true if the message begins as the settings say.
local function begins_as_expected(tvb)
    for _, expected in ipairs(settings.match) do
        local at, value = expected[1], expected[2]
        if tvb:len() < at + 4 or tvb(at, 4):uint() ~= value then
            return false
        end
    end
    return true
end

-- Decodes a message. Without a tree nothing is shown.
local function decode(tvb, tree)
    local state = {
        tvb = tvb, at = 0, stop = tvb:len(), depth = MAX_DEPTH, elements = MAX_ELEMENTS,
        overlays = 0, items = 0, depth_shown = 0, path = {}, steps = 0, cases = {},
    }
    local ok, problem = pcall(read, state, tree, root)
    return ok, problem, state
end

-- Calls the dissector of what follows the header.
local function dissect_payload(tvb, pinfo, tree, at)
    if settings.payload == "" or tvb:len() < at + 4 then
        return
    end
    -- A message and what it carries begin with one identifier. Otherwise it is a later part.
    if tvb(at, 4):uint() ~= tvb(0, 4):uint() then
        return
    end
    local found, dissector = pcall(Dissector.get, settings.payload)
    pinfo.cols.info:append(" ")
    pinfo.cols.info:fence()
    if found and dissector then
        pcall(dissector.call, dissector, tvb(at):tvb(), pinfo, tree)
    end
end

-- Shows a message. Returns false if it is none of ours.
local function message(tvb, pinfo, tree)
    if not begins_as_expected(tvb) then
        return false
    end
    -- Without a value to expect, only what can be decoded is ours.
    if #settings.match == 0 and not decode(tvb, nil) then
        return false
    end
    local item = tree:add(proto, tvb())
    local ok, problem, state = decode(tvb, item)
    pinfo.cols.protocol = settings.title
    pinfo.cols.info:append(" " .. table.concat(state.cases, " "))
    if state.cut then
        item:add_proto_expert_info(cut)
    end
    -- A capture may end frames early. The dissectors of RoCE and iWARP do not pass such payloads.
    local missing = tvb:reported_len() - tvb:len()
    if missing > 0 then
        item:add_proto_expert_info(truncated, missing .. " bytes of the message were not captured")
        pinfo.cols.info:append(" (truncated)")
        if not ok and type(problem) == "table" and problem.what == "unexpected end" then
            return true
        end
    end
    if ok then
        item:set_len(state.at)
        if settings.prefix then
            dissect_payload(tvb, pinfo, tree, state.at)
        elseif state.at < tvb:len() then
            item:add_proto_expert_info(malformed, "bytes are left over at byte " .. state.at)
        end
    else
        item:add_proto_expert_info(malformed, describe(problem))
        pinfo.cols.info:append(" (malformed)")
    end
    return true
end

-- Reassembly of Sends. `partial` has the Send of each stream that is not complete; `pieces` has what
-- a packet was found to be, because packets are dissected again in any order. `begun` has the packets
-- with which a Send begins: true if the Send before it is not complete.
local partial, pieces, begun = {}, {}, {}

function proto.init()
    partial, pieces, begun = {}, {}, {}
end

local function field(name)
    local found, extractor = pcall(Field.new, name)
    return found and extractor or nil
end

-- Returns the last value of a field in this packet so far: that of the headers just before.
local function last(extractor)
    local all = extractor and { extractor() } or {}
    local info = all[#all]
    return info and info.value
end

local function note(tree, tvb, text, problem)
    local item = tree:add(proto, tvb(), settings.title .. ": " .. text)
    if problem then
        item:add_proto_expert_info(lost, problem)
    end
end

-- Begins a Send of a stream. Shows that the Send before it is not complete.
local function begin(key, stream, tvb, tree)
    if begun[key] == nil then
        begun[key] = partial[stream] ~= nil
        partial[stream] = nil
    end
    if begun[key] then
        note(tree, tvb, "the message before this one", "its last packets are not in the capture")
    end
end

-- Takes a piece of a Send: `first` begins and `final` ends it, `follows` tells whether it is the one
-- after the last piece. Returns what is known of the piece.
local function collect(stream, tvb, first, final, follows, next)
    local before = partial[stream]
    if first then
        if not begins_as_expected(tvb) then
            partial[stream] = nil
            return { other = true }
        end
        before = { bytes = ByteArray.new(), count = 0 }
        partial[stream] = before
    elseif not before then
        return { other = true }
    elseif not follows(before) then
        partial[stream] = nil
        return { lost = "packets before this one are not in the capture" }
    end
    if before.bytes:len() + tvb:len() > MAX_MESSAGE then
        partial[stream] = nil
        return { lost = "the message is too long" }
    end
    before.bytes:append(tvb:bytes())
    before.count, before.next = before.count + 1, next
    if final then
        partial[stream] = nil
        return { bytes = before.bytes, count = before.count }
    end
    return { piece = before.count }
end

local function show_piece(piece, tvb, pinfo, tree)
    if piece.other then
        return false
    elseif piece.lost then
        note(tree, tvb, "the rest of a message", piece.lost)
        pinfo.cols.info:append(" (a part of the message is missing)")
        return true
    elseif piece.piece then
        note(tree, tvb, "packet " .. piece.piece .. " of a message")
        return true
    end
    note(tree, tvb, "the last of " .. piece.count .. " packets of a message")
    return message(piece.bytes:tvb(settings.title .. " message"), pinfo, tree)
end

-- Heuristics may be called again for a packet: what was found at first stays.
local function part(key, tvb, pinfo, tree, collect_it)
    local piece = pieces[key]
    if not piece then
        piece = collect_it()
        pieces[key] = piece
    end
    return show_piece(piece, tvb, pinfo, tree)
end

-- InfiniBand and RoCE: the BTH says which packet of a Send it is.
local bth = {
    opcode = field("infiniband.bth.opcode"), psn = field("infiniband.bth.psn"),
    queue_pair = field("infiniband.bth.destqp"), pad = field("infiniband.bth.padcnt"),
}
local SEND = {
    [0] = "first", [1] = "middle", [2] = "last", [3] = "last", [4] = "only", [5] = "only",
    [22] = "last", [23] = "only",
}

local function infiniband(tvb, pinfo, tree)
    local opcode, psn = last(bth.opcode), last(bth.psn)
    if not opcode or not psn then
        return #settings.match > 0 and decode(tvb, nil) and message(tvb, pinfo, tree)
    end
    local place, padding = SEND[opcode], last(bth.pad) or 0
    if not place or padding >= tvb:len() then
        return false
    end
    if padding > 0 then
        tvb = tvb(0, tvb:len() - padding):tvb()
    end
    local stream = tostring(pinfo.net_src) .. ">" .. tostring(pinfo.net_dst) .. ">"
        .. tostring(last(bth.queue_pair))
    local key = pinfo.number .. " " .. stream
    if place == "only" or place == "first" then
        begin(key, stream, tvb, tree)
    end
    if place == "only" then
        return message(tvb, pinfo, tree)
    end
    return part(key, tvb, pinfo, tree, function()
        local follows = function(before)
            return before.next == psn
        end
        return collect(stream, tvb, place == "first", place == "last", follows, (psn + 1) % 16777216)
    end)
end

-- iWARP: DDP numbers messages, and says where in its message a segment is.
local ddp = {
    last = field("iwarp_ddp.last_flag"), msn = field("iwarp_ddp.msn"), mo = field("iwarp_ddp.mo"),
    opcode = field("iwarp_rdma.opcode"),
}

local function iwarp(tvb, pinfo, tree)
    local opcode, offset, msn = last(ddp.opcode), last(ddp.mo), last(ddp.msn)
    if not opcode then
        return #settings.match > 0 and decode(tvb, nil) and message(tvb, pinfo, tree)
    end
    if opcode < 3 or opcode > 6 or not offset then
        return false
    end
    local final = last(ddp.last)
    local stream = tostring(pinfo.net_src) .. ":" .. pinfo.src_port .. ">"
        .. tostring(pinfo.net_dst) .. ":" .. pinfo.dst_port
    local key = pinfo.number .. " " .. stream .. " " .. msn .. " " .. offset
    -- Where Wireshark reassembles Sends itself, the last segment comes with all of the message.
    local whole = offset == 0 or not (pieces[key] or partial[stream])
    if offset == 0 then
        begin(key, stream, tvb, tree)
    end
    if final and whole then
        return message(tvb, pinfo, tree)
    end
    return part(key, tvb, pinfo, tree, function()
        local follows = function(before)
            return before.msn == msn and before.bytes:len() == offset
        end
        local piece = collect(stream, tvb, offset == 0, final, follows, nil)
        if partial[stream] then
            partial[stream].msn = msn
        end
        return piece
    end)
end

-- No error leaves a heuristic: Wireshark would show it in place of the packet.
local function guarded(heuristic)
    return function(tvb, pinfo, tree)
        local ok, ours = pcall(heuristic, tvb, pinfo, tree)
        if ok then
            return ours and true or false
        end
        tree:add(proto, tvb()):add_proto_expert_info(malformed, describe(ours))
        return true
    end
end

function proto.dissector(tvb, pinfo, tree)
    if guarded(message)(tvb, pinfo, tree) then
        return tvb:len()
    end
    return 0
end

proto:register_heuristic("infiniband.payload", guarded(infiniband))
proto:register_heuristic("iwarp_ddp_rdmap", guarded(iwarp))

//! The chunks of a call: as its header offers them, and as its reply returns them.

use arrayvec::ArrayVec;

use super::request::Request;
use crate::chunk::{self, Fault, Limits};
use crate::connection::config::SEGMENTS;
use crate::connection::output::{Failure, Region, Reply};
use crate::header::{Chunks, Outgoing};
use crate::travel::{Link, RESULTS};
use crate::v2::{self, MsgType};

/// Writes the header of a call; none if the buffer is too small.
pub(super) fn write(xid: u32, request: &Request, credits: u32, link: &Link<'_>, buffer: &mut [u8]) -> Option<usize> {
    let mut header = Outgoing { xid, version: link.version, credits, direction: MsgType::Call, ..Outgoing::EMPTY };
    if request.apart.exposed().is_empty() {
        return header.write(buffer).ok();
    }
    let wire: ArrayVec<v2::Segment, SEGMENTS> =
        request.apart.segments().iter().take(SEGMENTS).copied().map(v2::Segment::from).collect();
    let mut reads = ArrayVec::<v2::ReadSegment, SEGMENTS>::new();
    let mut writes = ArrayVec::<v2::WriteChunk<'_>, RESULTS>::new();
    for (region, mine) in request.regions(&wire) {
        let read = |position| move |target: &v2::Segment| v2::ReadSegment { position, target: *target };
        match region {
            Region::Call => {
                header.long = true;
                reads.extend(mine.iter().map(read(0)));
            }
            Region::Item(at) => {
                let position = request.apart.items().get(at).map_or(0, |item| item.position);
                reads.extend(mine.iter().map(read(position)));
            }
            Region::Result(_) => writes.push(v2::WriteChunk { target: mine.into() }),
            Region::Reply => header.reply = Some(mine),
        }
    }
    (header.reads, header.writes) = (&reads, &writes);
    header.write(buffer).ok()
}

/// Holds a reply against what was offered for it, and takes over the lengths of its chunks.
pub(super) fn returned(request: &Request, chunks: Option<&Chunks<'_>>, reply: &mut Reply) -> Result<(), Failure> {
    chunks_returned(request, chunks.unwrap_or(&Chunks::none()), reply)?;
    // A reply without octets of its own must be in the chunk.
    match (reply.inline.is_empty(), reply.long) {
        (true, None | Some(0..8)) => Err(Failure::Reply(Fault::NoPayload)),
        _ => Ok(()),
    }
}

/// Holds the chunks that a reply returns against those that were offered.
fn chunks_returned(request: &Request, chunks: &Chunks<'_>, reply: &mut Reply) -> Result<(), Failure> {
    // Whatever is offered is within our own limits.
    const ALL: Limits = Limits { segments: u32::MAX, octets: u32::MAX };
    if !chunks.reads().is_empty() {
        return Err(Failure::ReplyReads);
    }
    let mut writes = chunks.writes(&ALL);
    let mut long = chunks.reply(&ALL).map_err(Failure::Reply)?;
    // A request of rtrext-02 has directed, and offered no chunks.
    let has_offered = request.grouped().is_none();
    for (region, offered) in request.regions(request.apart.segments()).filter(|_| has_offered) {
        let offered = offered.iter().copied();
        match region {
            Region::Result(_) => {
                // A responder that leaves out the list has used none of it.
                let octets = match writes.next() {
                    Some(chunk) => chunk.and_then(|chunk| chunk::returned(offered, chunk.segments())),
                    None => Ok(0),
                };
                reply.results.push(octets.map_err(Failure::Reply)?);
            }
            Region::Reply => {
                let octets = long.take().map_or(Ok(0), |chunk| chunk::returned(offered, chunk.segments()));
                reply.long = Some(octets.map_err(Failure::Reply)?);
            }
            Region::Call | Region::Item(_) => {}
        }
    }
    if writes.next().is_some() || long.is_some() {
        return Err(Failure::Reply(Fault::NotAsOffered));
    }
    Ok(())
}

//! Runs arbitrary bytes as the setup of an iWARP connection, in parts of any length: a request for
//! a responder, and a reply for an initiator. What is accepted is answered, and both ends agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_iwarp::{MpaInitiator, MpaOptions, MpaResponder, ReadDepths, RtrTypes};

/// The most bytes of a frame (RFC 5044, section 7.1.1): the key, the flags, and private data.
const MOST: usize = 20 + 512;

fuzz_target!(|input: &[u8]| {
    let Some((&[flags, cut], bytes)) = input.split_first_chunk() else {
        return;
    };
    let bit = |number: u8| flags & (1 << number) != 0;
    let depths = ReadDepths {
        ird: u16::from(cut),
        ord: u16::from(flags),
    };
    let rtr = RtrTypes {
        send: bit(2),
        write: bit(3),
        read: true,
    };
    let options = MpaOptions {
        crc: bit(0),
        depths: bit(1).then_some(depths),
        rtr: (bit(1) && bit(4)).then_some(rtr),
        private_data: vec![cut; usize::from(cut)],
    };
    let at = usize::from(cut).min(bytes.len());
    if bit(5) {
        let Ok((mut initiator, _)) = MpaInitiator::new(options) else {
            return;
        };
        for part in [&bytes[..at], &bytes[at..]] {
            match initiator.receive(part) {
                Ok((taken, None)) => assert!(taken == part.len() && taken <= MOST),
                Ok((taken, Some(established))) => {
                    assert!(taken <= part.len() && established.private_data.len() <= 512);
                    return;
                }
                Err(_) => return,
            }
        }
        return;
    }
    let mut responder = MpaResponder::new();
    for part in [&bytes[..at], &bytes[at..]] {
        let Ok(received) = responder.receive(part) else {
            return;
        };
        let Some(request) = received else { continue };
        assert!(request.private_data().len() <= 512);
        if let Ok((reply, established)) = request.accept(&options) {
            assert!(reply.len() <= MOST);
            assert!(established.crc || !options.crc);
        }
        return;
    }
});

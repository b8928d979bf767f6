//! A keyed hash of long messages. The standard library's hash takes a millisecond for 1 MiB.
//!
//! `reply_cache` takes calls with equal hashes and lengths, of one caller and with one XID, for the
//! same call, and compares no bytes. Its tables take the hash as it is: what distinguishes callers
//! must be among the bytes. It relies on a hash that does not depend on the boundaries of
//! the pieces, since a retransmission may transfer its items in another way. Each [`KeyedHash`] has
//! a key of its own: its hashes mean nothing to another.

use std::hash::{BuildHasher as _, RandomState};

/// The number of interleaved hashes, since each multiplication waits for the previous one.
const LANES: usize = 4;

/// The bytes that all lanes take at once.
const STRIDE: usize = 16 * LANES;

/// Hashes with a random key. Each block of 16 bytes is multiplied with the hash of the blocks
/// before, as in wyhash, and the standard library's hash takes the outcome.
///
/// The key is secret, and no hash leaves the process, so that a client cannot choose messages of
/// equal hashes. It distinguishes the calls of one client: a client that finds a collision by
/// chance harms only itself.
#[derive(Clone, Debug)]
pub(crate) struct KeyedHash {
    finish: RandomState,
    key: [u64; 2],
}

/// The state of a hash, with the bytes that are not a whole stride yet.
struct Hashing {
    key: u64,
    lanes: [u64; LANES],
    rest: [u8; STRIDE],
    rest_len: usize,
}

impl KeyedHash {
    pub(crate) fn new() -> Self {
        let finish = RandomState::new();
        let key = [0, 1].map(|number| finish.hash_one(number));
        Self { finish, key }
    }

    /// Returns the hash and the number of bytes of a message in pieces. Their boundaries do not
    /// matter.
    pub(crate) fn hash<'b>(&self, pieces: impl IntoIterator<Item = &'b [u8]>) -> (u64, usize) {
        let [seed, key] = self.key;
        let mut hashing = Hashing {
            key,
            lanes: std::array::from_fn(|lane| seed ^ lane as u64),
            rest: [0; STRIDE],
            rest_len: 0,
        };
        let mut sum = 0;
        for piece in pieces {
            hashing.add(piece);
            sum += piece.len();
        }
        (self.finish.hash_one(hashing.end(seed, sum)), sum)
    }
}

impl Hashing {
    fn add(&mut self, piece: &[u8]) {
        let piece = self.fill_rest(piece);
        let (strides, rest) = piece.as_chunks::<STRIDE>();
        for stride in strides {
            self.stride(stride);
        }
        self.fill_rest(rest);
    }

    /// Moves bytes to the rest, and returns the bytes that are left. An empty rest takes no whole
    /// stride.
    fn fill_rest<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.rest_len == 0 && bytes.len() >= STRIDE {
            return bytes;
        }
        let room = self.rest.get_mut(self.rest_len..).unwrap_or_default();
        let (now, later) = bytes.split_at(bytes.len().min(room.len()));
        room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
        self.rest_len += now.len();
        if self.rest_len == STRIDE {
            let stride = self.rest;
            self.stride(&stride);
            self.rest_len = 0;
        }
        later
    }

    fn stride(&mut self, stride: &[u8; STRIDE]) {
        let (blocks, _) = stride.as_chunks::<16>();
        for (lane, block) in self.lanes.iter_mut().zip(blocks) {
            *lane = mix(*lane, self.key, *block);
        }
    }

    /// Returns the hash of all bytes, of which there were `sum`.
    fn end(mut self, seed: u64, sum: usize) -> u64 {
        // What is behind the rest is of earlier bytes.
        let unused = self.rest.get_mut(self.rest_len..).unwrap_or_default();
        unused.fill(0);
        let key = self.key;
        let lanes = self.lanes;
        let lanes = lanes.map(|lane| (u128::from(lane) << 64 | u128::from(key)).to_le_bytes());
        let (blocks, _) = self.rest.as_chunks::<16>();
        let used = blocks.iter().take(self.rest_len.div_ceil(16));
        let hash = lanes.iter().chain(used);
        let hash = hash.fold(seed, |hash, block| mix(hash, key, *block));
        mix(hash, key ^ sum as u64, [0; 16])
    }
}

fn mix(hash: u64, key: u64, block: [u8; 16]) -> u64 {
    let block = u128::from_le_bytes(block);
    let product = u128::from(low(block) ^ hash) * u128::from(low(block >> 64) ^ key);
    // A factor is 0 only by chance, and the sum preserves what a 0 would lose.
    low(product) ^ low(product >> 64) ^ hash.rotate_left(23)
}

/// Returns the lower half.
fn low(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_bit_and_the_length_count() {
        let hash = KeyedHash::new();
        let mut seen = HashSet::new();
        for len in [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 200] {
            let mut bytes = vec![0; len];
            assert!(seen.insert(hash.hash([&bytes[..]])));
            for bit in 0..8 * len {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(hash.hash([&bytes[..]])), "{len}: {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        // A long message, of which every byte counts.
        let mut long = vec![0; 1000];
        for byte in 0..long.len() {
            long[byte] = 1;
            assert!(seen.insert(hash.hash([&long[..]])), "{byte}");
        }
        // Neighbours that are exchanged.
        let swapped = [[1; 16], [2; 16]].concat();
        assert_ne!(
            hash.hash([&swapped[..]]),
            hash.hash([&[[2; 16], [1; 16]].concat()[..]])
        );
    }

    #[test]
    fn the_boundaries_of_pieces_do_not_count() {
        let hash = KeyedHash::new();
        let bytes: Vec<u8> = (0..=255).cycle().take(300).collect();
        let whole = hash.hash([&bytes[..]]);
        for first in 0..bytes.len() {
            for second in [first, first + 1, first + 63, first + 64, first + 65, 300] {
                let second = second.min(bytes.len());
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(hash.hash(pieces), whole, "{first} {second}");
            }
        }
    }

    #[test]
    fn the_key_is_random() {
        let [one, other] = [(); 2].map(|()| KeyedHash::new().hash([&b"call"[..]]));
        assert_ne!(one, other);
    }
}

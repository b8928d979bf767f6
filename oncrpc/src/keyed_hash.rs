//! A keyed hash of long messages. The standard library's hash takes a millisecond for 1 MiB.

use std::hash::{BuildHasher as _, RandomState};

/// The number of interleaved hashes, since each multiplication waits for the previous one.
const LANES: usize = 4;

/// Hashes with a random key. Each block of 16 bytes is multiplied with the hash of the blocks
/// before, as in wyhash, and the standard library's hash takes the outcome.
///
/// It distinguishes the calls of one client. A client that finds a collision harms only itself.
#[derive(Clone, Debug)]
pub(crate) struct KeyedHash {
    finish: RandomState,
    key: [u64; 2],
}

impl KeyedHash {
    pub(crate) fn new() -> Self {
        let finish = RandomState::new();
        let key = [0, 1].map(|number| finish.hash_one(number));
        Self { finish, key }
    }

    /// Returns the hash and the number of bytes in pieces. The hash depends on the boundaries of
    /// the pieces.
    pub(crate) fn hash<'b>(&self, pieces: impl Iterator<Item = &'b [u8]>) -> (u64, usize) {
        let [mut hash, key] = self.key;
        let mut sum = 0;
        for piece in pieces {
            let (strides, rest) = piece.as_chunks::<{ 16 * LANES }>();
            let mut lanes: [u64; LANES] = std::array::from_fn(|lane| hash ^ lane as u64);
            for stride in strides {
                let (blocks, _) = stride.as_chunks::<16>();
                for (lane, block) in lanes.iter_mut().zip(blocks) {
                    *lane = mix(*lane, key, *block);
                }
            }
            let (blocks, rest) = rest.as_chunks::<16>();
            let lanes = lanes.map(|lane| (u128::from(lane) << 64 | u128::from(key)).to_le_bytes());
            let blocks = lanes.iter().chain(blocks);
            hash = blocks.fold(hash, |hash, block| mix(hash, key, *block));
            let mut last = [0; 16];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            hash = mix(hash, key ^ piece.len() as u64, last);
            sum += piece.len();
        }
        (self.finish.hash_one(hash), sum)
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
            assert!(seen.insert(hash.hash([&bytes[..]].into_iter())));
            for bit in 0..8 * len {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    seen.insert(hash.hash([&bytes[..]].into_iter())),
                    "{len}: {bit}"
                );
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        // A long message, of which every byte counts.
        let mut long = vec![0; 1000];
        for byte in 0..long.len() {
            long[byte] = 1;
            assert!(seen.insert(hash.hash([&long[..]].into_iter())), "{byte}");
        }
        // Neighbours that are exchanged, and pieces.
        let swapped = [[1; 16], [2; 16]].concat();
        assert_ne!(
            hash.hash([&swapped[..]].into_iter()),
            hash.hash([&[[2; 16], [1; 16]].concat()[..]].into_iter())
        );
        assert_ne!(
            hash.hash([&swapped[..16], &swapped[16..]].into_iter()),
            hash.hash([&swapped[..15], &swapped[15..]].into_iter())
        );
    }

    #[test]
    fn the_key_is_random() {
        let [one, other] = [(); 2].map(|()| KeyedHash::new().hash([&b"call"[..]].into_iter()));
        assert_ne!(one, other);
    }
}

//! A type whose constructor checks a length cannot be built as a tuple: its field is private.

use xdrgen_fixtures::kinds::owned;
use xdrgen_runtime::{ArrayBuf, OpaqueBuf, TextBuf};

fn main() {
    let _: owned::Handle = OpaqueBuf(vec![0; 65]);
    let _: owned::Name = TextBuf(b"nine char".to_vec());
    let _: owned::Ragged = ArrayBuf(vec![0; 4]);
}

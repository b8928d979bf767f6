//! A type whose constructor checks a length cannot be built from its field, which is private.

use xdrgen_fixtures::kinds;
use xdrgen_runtime::{Opaque, Text};

fn opaque() -> kinds::Handle<'static> {
    Opaque { bytes: &[0; 65] }
}

fn text() -> kinds::Name<'static> {
    Text {
        bytes: b"nine char",
    }
}

fn main() {
    let _ = (opaque(), text());
}

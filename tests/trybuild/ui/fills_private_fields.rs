//! What checks a length when it is made can't be made without: its field is private.

use xdrgen_fixtures::kinds;
use xdrgen_runtime::{Opaque, Text};

fn opaque() -> kinds::Handle<'static> {
    Opaque { octets: &[0; 65] }
}

fn text() -> kinds::Name<'static> {
    Text { octets: b"nine char" }
}

fn main() {
    let _ = (opaque(), text());
}

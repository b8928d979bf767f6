//! Only constructors that check the length create a bounded opaque, string or array, and nothing
//! extends one. (Other tests check the errors at run time.)

use xdrgen_fixtures::kinds::{self, owned};
use xdrgen_runtime::{Array, ArrayBuf, Text};

fn from_an_array() -> kinds::Handle<'static> {
    (&[0; 65]).into()
}

fn without_the_check() -> kinds::Handle<'static> {
    kinds::Handle::new(&[0; 65])
}

fn from_a_vector() -> owned::Ragged {
    vec![0; 4].into()
}

fn from_a_string() -> owned::Name {
    "nine char".to_owned().into()
}

fn of_another_bound() -> kinds::Ragged<'static> {
    Array::<'static, i32, 4>::default()
}

fn text_of_another_bound(name: Text<'static, 9>) -> kinds::Name<'static> {
    name
}

fn grown(handle: &mut owned::Handle, array: &mut ArrayBuf<i32, 3>) {
    handle.push(0);
    array.extend([1, 2, 3, 4]);
}

fn main() {
    from_an_array();
    without_the_check();
    from_a_vector();
    from_a_string();
    of_another_bound();
    text_of_another_bound(Text::default());
    grown(&mut owned::Handle::default(), &mut ArrayBuf::default());
}

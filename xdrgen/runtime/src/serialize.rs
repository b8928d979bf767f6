//! `Serialize` and `Deserialize` of serde, for the types of this crate.
//!
//! Bounded opaques and items are bytes, and sequences are sequences. Strings are strings in
//! human-readable formats if they are UTF-8, and bytes otherwise. Unbounded and fixed opaques
//! (`Vec`, slices, arrays) have the impls of serde: sequences of numbers. `emit::serde` in
//! `xdrgen-build` emits the derives, and names [`long_array`]. Stored data relies on these forms.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeTuple as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Array, ArrayBuf, DdpArray, DdpList, DdpNested, Decode, Item, List, ListBuf, Nested, Opaque,
    OpaqueBuf, Quadruple, Text, TextBuf,
};

/// Deserializes bytes from a byte string or a sequence, depending on the format.
struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes or a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_str<E>(self, text: &str) -> Result<Vec<u8>, E> {
        Ok(text.as_bytes().to_vec())
    }

    fn visit_string<E>(self, text: String) -> Result<Vec<u8>, E> {
        Ok(text.into_bytes())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

fn serialize_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match core::str::from_utf8(bytes) {
        Ok(text) if serializer.is_human_readable() => serializer.serialize_str(text),
        _ => serializer.serialize_bytes(bytes),
    }
}

impl<const MAX: u32> Serialize for Opaque<'_, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_ref())
    }
}

impl<const MAX: u32> Serialize for OpaqueBuf<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_ref())
    }
}

impl<'de, const MAX: u32> Deserialize<'de> for OpaqueBuf<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_byte_buf(Bytes)?;
        Self::new(bytes).map_err(D::Error::custom)
    }
}

impl<const MAX: u32> Serialize for Text<'_, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_text(self.as_bytes(), serializer)
    }
}

impl<const MAX: u32> Serialize for TextBuf<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_text(self.as_bytes(), serializer)
    }
}

impl<'de, const MAX: u32> Deserialize<'de> for TextBuf<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = if deserializer.is_human_readable() {
            deserializer.deserialize_any(Bytes)?
        } else {
            deserializer.deserialize_byte_buf(Bytes)?
        };
        Self::from_bytes(bytes).map_err(D::Error::custom)
    }
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_bytes())
    }
}

impl<'de> Deserialize<'de> for Item<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(Bytes).map(Self::from)
    }
}

impl<'a, T: Decode<'a> + Clone + Serialize, const MAX: u32> Serialize for Array<'a, T, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'a, T: Decode<'a> + Clone + Serialize, const MAX: u32> Serialize for DdpArray<'a, T, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'a, T: Decode<'a> + Clone + Serialize> Serialize for List<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'a, T: Decode<'a> + Clone + Serialize> Serialize for DdpList<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<T: Serialize, const MAX: u32> Serialize for ArrayBuf<T, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: u32> Deserialize<'de> for ArrayBuf<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::deserialize(deserializer)?;
        Self::new(items).map_err(D::Error::custom)
    }
}

impl<T: Serialize> Serialize for ListBuf<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ListBuf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

impl<'a, T: Decode<'a> + Clone + Serialize> Serialize for Nested<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.get().map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'a, T: Decode<'a> + Clone + Serialize> Serialize for DdpNested<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.get().map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl Serialize for Quadruple {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Quadruple {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Deserialize::deserialize(deserializer).map(Self)
    }
}

/// Arrays of any length; serde supports only up to 32 elements. For generated code.
#[doc(hidden)]
pub mod long_array {
    use super::*;

    /// # Errors
    /// As the serializer.
    pub fn serialize<T: Serialize, S: Serializer, const N: usize>(
        array: &[T; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(N)?;
        array
            .iter()
            .try_for_each(|item| tuple.serialize_element(item))?;
        tuple.end()
    }

    /// # Errors
    /// As the deserializer, and for another number of elements.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[T; N], D::Error> {
        deserializer.deserialize_tuple(N, Elements(PhantomData))
    }

    /// The same for a boxed array.
    pub mod boxed {
        use alloc::boxed::Box;

        use super::*;

        /// # Errors
        /// As the serializer.
        pub fn serialize<T: Serialize, S: Serializer, const N: usize>(
            array: &[T; N],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            super::serialize(array, serializer)
        }

        /// # Errors
        /// As the deserializer, and for another number of elements.
        pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>, const N: usize>(
            deserializer: D,
        ) -> Result<Box<[T; N]>, D::Error> {
            super::deserialize(deserializer).map(Box::new)
        }
    }

    struct Elements<T, const N: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Elements<T, N> {
        type Value = [T; N];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{N} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<[T; N], A::Error> {
            let mut items = Vec::new();
            while let Some(item) = seq.next_element()? {
                items.push(item);
                if items.len() > N {
                    break;
                }
            }
            let length = items.len();
            items
                .try_into()
                .map_err(|_| A::Error::invalid_length(length, &Elements::<T, N>(PhantomData)))
        }
    }
}

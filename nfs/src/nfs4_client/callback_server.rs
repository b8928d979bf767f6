//! The dispatch of the back channel's calls. Generated code does not decode a CB_COMPOUND with an
//! operation that is not defined; RFC 8881 has a result for it.

use oncrpc::xdr::{self, Array, Decode, Decoder, Encode, Procedure, Sink, Trace, Wire};
use oncrpc::{Context, Dispatch, IncomingCall, ReplyWriter, Router, RpcError};

use super::callbacks::{BACK_OPERATIONS, Nfs4Callbacks, is_supported};
use crate::nfs4::nfs4_callback::nfs_cb::{Compound, Null};
use crate::nfs4::{CbCompound4args, CbCompound4res, NfsCbArgop4, NfsCbOpnum4, Utf8strCs};

/// The router of [`Nfs4Callbacks::router`].
pub type Nfs4CallbackRouter = Router<(Nfs4Callbacks, ())>;

impl Nfs4Callbacks {
    /// Returns the service of the back channel, for `tcp::connect_with_services` and
    /// `rpcrdma_verbs::connect_with_services`.
    #[must_use]
    pub fn router(&self) -> Nfs4CallbackRouter {
        self.set_served();
        Router::new().add_service(self.clone())
    }
}

impl Dispatch for Nfs4Callbacks {
    const PROGRAM: u32 = Compound::PROGRAM;
    const VERSION: u32 = Compound::VERSION;

    fn procedure_name(number: u32) -> Option<&'static str> {
        match number {
            Null::NUMBER => Some(Null::NAME),
            Compound::NUMBER => Some(Compound::NAME),
            _ => None,
        }
    }

    /// The slots of the back channel execute a CB_COMPOUND once.
    fn is_idempotent(number: u32) -> bool {
        matches!(number, Null::NUMBER | Compound::NUMBER)
    }

    async fn dispatch<'a>(
        &'a self,
        _: &'a Context,
        call: IncomingCall<'a>,
        reply: &'a mut ReplyWriter,
    ) -> Result<(), RpcError> {
        if call.procedure() != Compound::NUMBER {
            return Err(RpcError::ProcedureUnavailable);
        }
        let results = match call.args::<Compound>() {
            Ok(args) => self.execute(&args, args.argarray.len()),
            Err(error) => {
                let Undecoded(args) = call.args::<UndecodedCompound>()?;
                let beginning = Beginning::decode(&mut Decoder::new(args));
                let beginning = beginning.ok().flatten().ok_or(error)?;
                self.execute(&beginning.args(), beginning.count)
            }
        };
        reply.results(&results)
    }
}

/// The operations of a CB_COMPOUND that can be executed or refused without those that follow.
struct Beginning<'a> {
    tag: Utf8strCs<'a>,
    minorversion: u32,
    callback_ident: u32,
    /// The number of operations of the whole CB_COMPOUND.
    count: usize,
    operations: Vec<NfsCbArgop4<'a>>,
}

impl<'a> Beginning<'a> {
    /// Decodes up to the first operation that is not defined, which becomes CB_ILLEGAL (RFC 8881,
    /// sections 16.2.3 and 20.13). Returns `None` if the operations themselves are at fault.
    fn decode(decoder: &mut Decoder<'a>) -> xdr::Result<Option<Self>> {
        let mut beginning = Self {
            tag: Decode::decode(decoder)?,
            minorversion: decoder.u32()?,
            callback_ident: decoder.u32()?,
            count: decoder.u32()? as usize,
            operations: Vec::new(),
        };
        // Another minor version has other operations, and too many are not executed.
        if !is_supported(beginning.minorversion) {
            return Ok(Some(beginning));
        }
        let most = BACK_OPERATIONS as usize;
        for _ in 0..beginning.count.min(most) {
            if NfsCbOpnum4::from_value(decoder.clone().i32()?).is_none() {
                beginning.operations.push(NfsCbArgop4::Illegal);
                return Ok(Some(beginning));
            }
            beginning.operations.push(Decode::decode(decoder)?);
        }
        Ok((beginning.count > most).then_some(beginning))
    }

    fn args(&self) -> CbCompound4args<'_> {
        CbCompound4args {
            tag: self.tag,
            minorversion: self.minorversion,
            callback_ident: self.callback_ident,
            argarray: Array::from(&self.operations[..]),
        }
    }
}

/// CB_COMPOUND with undecoded arguments.
struct UndecodedCompound;

impl Procedure for UndecodedCompound {
    const PROGRAM: u32 = Compound::PROGRAM;
    const VERSION: u32 = Compound::VERSION;
    const NUMBER: u32 = Compound::NUMBER;
    const NAME: &'static str = Compound::NAME;
    type Args<'a> = Undecoded<'a>;
    type Reply<'a> = CbCompound4res<'a>;
}

/// All bytes of the arguments.
struct Undecoded<'a>(&'a [u8]);

impl Wire for Undecoded<'_> {
    const MIN: usize = 0;
}

impl<'a> Decode<'a> for Undecoded<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> xdr::Result<Self> {
        let rest = decoder.remaining().len();
        decoder.take(rest).map(Self)
    }

    fn skip<T: Trace>(decoder: &mut Decoder<'a>, _: &mut T) -> xdr::Result<()> {
        decoder.advance(decoder.remaining().len())
    }
}

impl Encode for Undecoded<'_> {
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> xdr::Result<()> {
        sink.raw(self.0)
    }
}

use super::*;
use crate::v2::properties::Bkreqsup;

/// The last value of a property is announced once.
#[test]
fn only_the_last_change_of_a_property_is_announced() {
    let mut exchange = PropertyExchange::new(&Config::client());
    for size in [8192, 16_384] {
        exchange.update(BasicProperty::ReceiveBufferSize(size));
        exchange.update(BasicProperty::RemoteInvalidation(size == 8192));
    }
    exchange.update(BasicProperty::BackwardSupport(Bkreqsup::None));
    let last = [
        BasicProperty::ReceiveBufferSize(16_384),
        BasicProperty::RemoteInvalidation(false),
        BasicProperty::BackwardSupport(Bkreqsup::None),
    ];
    assert!(
        exchange
            .changed
            .as_slice()
            .iter()
            .map(|change| change.value)
            .eq(last)
    );
    exchange.connected();
    assert!(
        exchange.changed.is_empty(),
        "a new connection begins with all of them"
    );
}

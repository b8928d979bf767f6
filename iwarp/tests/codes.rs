//! The codes of Terminates against the tables of the RFCs.

use rpcrdma_iwarp::{Terminate, TerminateCode};

/// Layer and error type, and the codes of this type.
const TABLES: &[(u8, u8, &[u8])] = &[
    // RFC 5040, figure 9. A local catastrophic error has any code.
    (0, 0, &[0]),
    (0, 1, &[0, 1, 2, 3, 4, 9, 0xff]),
    (0, 2, &[5, 6, 7, 8, 9, 0xff]),
    // RFC 5041, section 7.2.
    (1, 0, &[0]),
    (1, 1, &[0, 1, 2, 3, 4]),
    (1, 2, &[1, 2, 3, 4, 5, 6]),
    // RFC 5044, section 8; from 5 on RFC 6581, section 8.
    (2, 0, &[1, 2, 3, 4, 5, 6, 7]),
];

#[test]
fn there_is_a_name_for_each_code() {
    // rfc: 5040-4.8-a
    let expected: Vec<TerminateCode> = TABLES
        .iter()
        .flat_map(|&(layer, error_type, codes)| {
            codes.iter().map(move |&code| TerminateCode {
                layer,
                error_type,
                code,
            })
        })
        .collect();
    assert_eq!(TerminateCode::ALL, expected);
}

#[test]
fn each_code_is_encoded_and_decoded() {
    for code in TerminateCode::ALL {
        let bytes = Terminate::new(*code).encode();
        let kind = code.layer << 4 | code.error_type;
        assert_eq!(bytes, [kind, code.code, 0, 0]);
        let decoded = Terminate::decode(&bytes).map(|terminate| terminate.code);
        assert_eq!(decoded, Some(*code));
    }
}

//! Failures come back equal, and what is not known is not taken for one that had no effect.

use std::io;

use super::samples::{DELIVERIES, OPERATIONS, Random, VARIANTS, VERDICTS, host_error, variant};
use crate::host::field::{Malformed, Transfer as _};
use crate::host::messages::host_failure::Why;
use crate::host::messages::{HostFailure, PluginFailure};
use nomad_csi_model::RemoteVolume;
use nomad_csi_ports::{HostError, HostFileError, PluginError, Rpc, StatusCode, verdict_of};
use prost::Message as _;

/// Through the bytes of the message.
fn there_and_back(error: HostError) -> Result<HostError, Malformed> {
    let bytes = error.write().encode_to_vec();
    HostError::read(HostFailure::decode(bytes.as_slice()).unwrap())
}

#[test]
fn every_failure_comes_back_equal() {
    let mut random = Random(7);
    for number in 0..VARIANTS {
        for _ in 0..500 {
            let error = host_error(number, &mut random);
            assert_eq!(variant(&error), number);
            assert_eq!(there_and_back(error.clone()), Ok(error));
        }
    }
}

/// B103: it names its call.
#[test]
fn every_failure_of_a_plugin_comes_back_equal() {
    for rpc in Rpc::ALL {
        for code in StatusCode::ALL {
            for verdict in VERDICTS {
                for delivery in DELIVERIES {
                    let message = format!("{rpc} {code:?}");
                    let error = PluginError { rpc, code, verdict, message, delivery };
                    let error = HostError::Plugin(error);
                    assert_eq!(there_and_back(error.clone()), Ok(error));
                }
            }
        }
    }
}

#[test]
fn every_operation_comes_back_equal() {
    let volume = RemoteVolume { plugin_id: "p".into(), external_id: "v".into() };
    for running in OPERATIONS {
        let error = HostError::Busy { volume: volume.clone(), running };
        assert_eq!(there_and_back(error.clone()), Ok(error));
    }
}

/// The kinds decide whether a file is damaged; some have no name in the language yet.
#[test]
fn every_kind_of_a_file_error_comes_back_equal() {
    let numbers = (0..=200).map(|number| io::Error::from_raw_os_error(number).kind());
    let named = [
        io::ErrorKind::InvalidData,
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::WriteZero,
        io::ErrorKind::Unsupported,
        io::ErrorKind::Other,
    ];
    for kind in numbers.chain(named) {
        let file =
            HostFileError { kind, ..HostFileError::new("read", "/a".as_ref(), &kind.into()) };
        let error = HostError::NotFinished(file);
        assert_eq!(there_and_back(error.clone()), Ok(error), "{kind:?}");
    }
}

/// A newer node may send each of them.
#[test]
fn a_failure_that_is_not_known_cannot_be_read() {
    let plugin = |change: fn(&mut PluginFailure)| {
        let rpc = Rpc::CreateVolume;
        let code = StatusCode::Internal;
        let error = PluginError {
            rpc,
            code,
            verdict: verdict_of(rpc, code),
            message: String::new(),
            delivery: nomad_csi_ports::Delivery::NotSent,
        };
        let mut message = error.write();
        change(&mut message);
        HostFailure { why: Some(Why::Plugin(message)) }
    };
    for failure in [
        HostFailure { why: None },
        plugin(|message| message.rpc = "NodeTeleportVolume".to_owned()),
        plugin(|message| message.code = 99),
        plugin(|message| message.verdict = 99),
        plugin(|message| message.verdict = 0),
        plugin(|message| message.delivery = 99),
        plugin(|message| message.delivery = 0),
    ] {
        assert!(HostError::read(failure).is_err());
    }
    assert!(HostError::read(plugin(|_| {})).is_ok());
}

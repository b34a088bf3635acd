//! The subcommands of `volume`. [`super::submit`] runs `volume create` and `volume register`.

pub(crate) mod abandon;
mod args;
mod claim_args;
pub(crate) mod claims;
mod cut_off;
pub(crate) mod detach;
pub(crate) mod doctor;
pub(crate) mod expand;
pub(crate) mod init;
pub(crate) mod modify;
pub(crate) mod remove;
mod resized_volume;
pub(crate) mod status;
pub(crate) mod wait;

pub(crate) use args::{SubmitArgs, VolumeCommand};

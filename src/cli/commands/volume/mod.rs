//! `volume …`; `create` and `register` are `super::submit`, which `apply` is too.

pub(crate) mod detach;
pub(crate) mod expand;
pub(crate) mod find;
pub(crate) mod init;
mod owned;
pub(crate) mod remove;
pub(crate) mod status;
pub(crate) mod wait;

//! Files that are written for another tool: they get one error that says what they are, and how to write them here.

mod api_volume;
mod terraform_block;
mod translation;

pub(super) use api_volume::{refuse_api_text, refuse_api_volumes};
pub(super) use terraform_block::refuse_terraform;

//! One file for each page, or each group of pages that belong together.

pub(crate) mod approvals;
pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod credentials;
pub(crate) mod ledger;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod policy;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod start;

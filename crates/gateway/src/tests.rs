mod catalog;
mod holding;
mod link;
mod pins;
mod sent;
mod support;
mod words;
mod wrapper;

mod catalog;
mod holding;
mod link;
mod pins;
mod seal;
mod sent;
mod support;
mod words;

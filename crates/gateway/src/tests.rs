mod catalog;
mod link;
mod pins;
mod seal;
mod support;

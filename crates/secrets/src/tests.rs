mod literal;
mod reference;
mod store;
mod vault;

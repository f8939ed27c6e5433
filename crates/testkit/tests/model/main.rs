//! The gate's decision against the reference model: the same outcome for every random call, and a difference as soon as any
//! one check is switched off.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod product;
#[cfg(test)]
mod signed;

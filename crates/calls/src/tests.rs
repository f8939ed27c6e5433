mod sent;
mod wrapper;

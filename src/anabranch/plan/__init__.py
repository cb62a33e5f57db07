"""Join graphs, plan trees and the layout of state that follows from them."""

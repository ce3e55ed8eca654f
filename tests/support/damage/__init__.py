"""Failing storage, killed processes, and injured logs, trees and indexes."""

-- One role and one database per service; neither can open the other's.
create role api login password 'api';
create role idp login password 'idp';
create database api owner api;
create database idp owner idp;
revoke connect on database api from public;
revoke connect on database idp from public;
